"""The overview: what is wrong first, then all queues, the worst first."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pgqpy.dashboard.page import Page, View, table
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


def collect(view: View) -> dict[str, Any]:
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


OVERVIEW = Page("/", "overview.html", collect, asks=False, live=True)
