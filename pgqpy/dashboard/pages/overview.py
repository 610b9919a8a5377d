"""The pages of the database: the overview, cron entries, readers of ticks, tickers, changes."""

from __future__ import annotations

from datetime import timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from psycopg.rows import dict_row

from pgqpy import calls
from pgqpy.dashboard.page import ROWS, Page, View, table
from pgqpy.watch.snapshot import total

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgqpy.watch import Count, QueueState

NONE = timedelta(0)
HEALTHY = ("ok", "external")


def _worst(queue: QueueState) -> tuple[bool, timedelta]:
    return queue.state in HEALTHY, -(queue.worst_lag or NONE)


def _count(count: Count | None) -> int:
    return count.number if count else 0


ORDERS: dict[str, Callable[[QueueState], Any]] = {
    "worst": _worst,
    "name": lambda _queue: 0,
    "rate": lambda queue: -(queue.events_per_second or 0),
    "lag": lambda queue: -(queue.worst_lag or NONE),
    "pending": lambda queue: -(queue.pending_events or 0),
    "retry": lambda queue: -_count(queue.retry_events),
    "dead": lambda queue: -_count(queue.dead_events),
    "size": lambda queue: -(queue.total_bytes or 0),
}


def collect_overview(view: View) -> dict[str, Any]:
    """Return the queues of one page of the table, and the sums over all."""
    queues = view.snapshot.queues
    speeds = [each.events_per_second for each in queues if each.events_per_second is not None]
    lags = [each for each in queues if each.worst_lag is not None]
    return {
        "table": table(queues, view.params, ORDERS, lambda queue: queue.name),
        "speed": sum(speeds) if speeds else None,
        "slowest": max(lags, key=lambda queue: queue.worst_lag or NONE, default=None),
        "dead": total(each.dead_events for each in queues),
        "retry": total(each.retry_events for each in queues),
        "delayed": total(each.delayed_events for each in queues),
        "ticker": next((each for each in view.snapshot.tickers if each.active), None),
    }


OVERVIEW = Page("/", "overview.html", collect_overview, asks=False, live=True)


def collect_cron(view: View) -> dict[str, Any]:
    """Return the entries of one page, the one that is due first at the top."""
    entries = view.client.get_cron_info()
    orders = {"due": lambda entry: (entry.next_due is None, entry.next_due), "name": lambda _: 0}
    return {"table": table(entries, view.params, orders, lambda entry: entry.name)}


CRON = Page("/cron", "cron.html", collect_cron, live=True)


NO_LAG = timedelta(0)
# Everybody may read these tables. The pins are the ticks that a reader wants to read again.
POSITIONS = """
    select q.queue_name, c.co_name, p.pos_last_tick, p.pos_pins
    from pgq.current_position p
        join pgq.queue q on q.queue_id = p.sub_queue
        join pgq.consumer c on c.co_id = p.sub_consumer
    where p.pos_pins is not null"""


def collect_readers(view: View) -> dict[str, Any]:
    """Return the readers of one page, the one with the largest lag at the top."""
    with view.client.connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(POSITIONS).fetchall()
    lags = {(each.queue, each.name): each.lag for each in view.snapshot.consumers}
    name = itemgetter("queue_name", "co_name")
    rows = [{**row, "lag": lags.get(name(row))} for row in rows]
    orders = {"lag": lambda row: (row["lag"] is not None, -(row["lag"] or NO_LAG))}
    return {"table": table(rows, view.params, orders, lambda row: " ".join(name(row)))}


READERS = Page("/readers", "readers.html", collect_readers, live=True)


def collect_tickers(_view: View) -> dict[str, Any]:
    """Return nothing: the snapshot has it all."""
    return {}


TICKERS = Page("/tickers", "tickers.html", collect_tickers, asks=False, live=True)


def collect_changes(view: View) -> dict[str, Any]:
    """Return one page of the audit, the newest change first."""
    if not view.rights.changes:
        return {"changes": None, "older": None}
    found = view.client.call(calls.history.get_changes(ROWS + 1, view.number("before")))
    older = found[ROWS - 1].id if len(found) > ROWS else None
    return {"changes": found[:ROWS], "older": older}


CHANGES = Page("/changes", "changes.html", collect_changes, live=True, audits=True)
