"""The pages of a queue: the ruler, its tables, consumers, settings and events."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup
from psycopg.rows import dict_row

from pgqpy import calls, tick_ranges
from pgqpy.dashboard.changes import SETTINGS as CHANGEABLE
from pgqpy.dashboard.charts import Bar, Flag, Mark, ruler
from pgqpy.dashboard.page import ROWS, Page, View
from pgqpy.errors import InvalidArgument, QueueNotFound
from pgqpy.records import TickMark
from pgqpy.texts import duration, size
from pgqpy.tick_ranges import queue_not_found

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pgqpy import Client, Event
    from pgqpy.records import RotationTable
    from pgqpy.watch import ConsumerState

FLAGS = 12  # consumers on the ruler, those with the largest lag
MARKS = 200  # ticks over the whole time
NEWEST = 100  # more ticks, the last ones: the scale has much room for the last minutes
LATE = timedelta(minutes=10)
NONE = timedelta(0)
SETTINGS = """
    select queue_ntables as tables, queue_rotation_period as rotation_period,
        queue_retention as retention, queue_ticker_max_count as ticker_max_count,
        queue_ticker_max_lag as ticker_max_lag, queue_ticker_idle_period as ticker_idle_period,
        queue_ticker_paused as ticker_paused, queue_external_ticker as external_ticker,
        queue_disable_insert as disable_insert, queue_per_tx_limit as per_tx_limit,
        clock_timestamp() as now
    from pgq.queue where queue_name = %s"""
TICK_TIMES = """
    select t.tick_id, t.tick_time
    from pgq.queue q cross join lateral (
        select tick_id, tick_time from pgq.tick
        where tick_queue = q.queue_id and tick_id = any (%s)) t
    where q.queue_name = %s"""


def collect_queue(view: View) -> dict[str, Any]:
    """Return the queue with its consumers, tables, ruler and settings."""
    name, client = view.needed("queue"), view.client
    queue = view.snapshot.queue(name)
    if queue is None:
        raise queue_not_found(client, name)
    with client.connection.cursor(row_factory=dict_row) as cursor:
        settings = cursor.execute(SETTINGS, [name]).fetchone()
    if settings is None:
        raise QueueNotFound(queue=name)
    now = settings.pop("now")
    consumers = sorted(view.snapshot.consumers_of(name), key=_lag, reverse=True)
    tables = client.call(calls.admin.get_rotation_info(name))
    ticks = {mark.id: mark for mark in client.call(calls.ticks.get_tick_marks(name, MARKS))}
    newest = client.call(calls.ticks.get_tick_info(name, max(ticks, default=0) - NEWEST))
    ticks |= {each.tick_id: TickMark(*each[:2], each.tick_event_seq) for each in newest}
    picture = ruler(
        _marks(list(ticks.values()), now),
        _flags(view, consumers[:FLAGS], now),
        [_bar(each, now) for each in tables],
    )
    return {
        "queue": queue,
        "charts": view.history(name),
        "consumers": consumers[:ROWS],
        "more_consumers": max(0, len(consumers) - ROWS),
        "captures": client.call(calls.capture.get_captures(name)),
        "tables": tables,
        "keeper": next((keeper(each) for each in tables if each.held_by), ""),
        "ruler": Markup(picture),  # noqa: S704  # the ruler escapes all texts
        "settings": settings,
    }


def _lag(consumer: ConsumerState) -> timedelta:
    return consumer.lag or NONE


def _marks(ticks: Sequence[TickMark], now: datetime) -> list[Mark]:
    ticks = sorted(ticks)
    before = [ticks[0], *ticks] if ticks else []
    return [
        Mark((now - tick.time).total_seconds(), tick.event_seq - last.event_seq)
        for tick, last in zip(ticks, before, strict=False)
    ]


def _flags(view: View, consumers: Sequence[ConsumerState], now: datetime) -> list[Flag]:
    """Return the consumers with their batches; one query finds the times of ticks."""
    queue = view.needed("queue")
    ends = {each.name: each.batch_end for each in consumers}
    wanted = {*ends.values(), *(each.last_tick for each in consumers)} - {None}
    found = view.client.connection.execute(TICK_TIMES, [list(wanted), queue]).fetchall()
    ages = {tick: (now - time).total_seconds() for tick, time in found}

    def flag(each: ConsumerState) -> Flag:
        return Flag(
            each.name,
            ages.get(each.last_tick, 0.0) if each.last_tick else 0.0,
            "detached" if each.detached else "late" if _lag(each) > LATE else "ok",
            batch=ages.get(ends[each.name]),
            note="detached" if each.detached else f"lag {duration(each.lag)}",
        )

    return [flag(each) for each in consumers]


def _bar(each: RotationTable, now: datetime) -> Bar:
    first, last = (
        None if time is None else (now - time).total_seconds()
        for time in (each.first_time, each.last_time)
    )
    note = ", ".join(filter(None, [size(each.bytes), keeper(each)]))
    return Bar(each.name, each.state, first, None if each.state == "current" else last, note)


def keeper(each: RotationTable) -> str:
    """Say who keeps the table that is to be truncated next; empty for the others."""
    if each.state != "next":
        return ""
    texts = {
        None: "next to be truncated",
        "consumer": f"kept for {each.holder}",
        "stage": f"kept for a stage of {each.holder}",
        "retention": "kept by the retention",
        "transaction": f"locked by server process {each.holder}",
        "ticker": "kept until the next tick",
    }
    return texts.get(each.held_by, f"kept by {each.held_by}")


QUEUE = Page("/queue", "queue.html", collect_queue, live=True)


def collect_change(view: View) -> dict[str, Any]:
    """Return the forms to change a queue: not live, so nothing is swapped while one types."""
    name = view.needed("queue")
    if not view.client.get_queue_info(name):
        raise queue_not_found(view.client, name)
    return {"queue": name, "settings": CHANGEABLE}


CHANGE_QUEUE = Page("/queue/change", "change_queue.html", collect_change)


SHOWN_ROWS = 100
TICKS = 1000  # that a page reads at most
EXTRAS = ("extra1", "extra2", "extra3", "extra4")
MOST_DATA, MOST_EXTRA = 4096, 1000  # characters that a page shows


class ShownEvent(NamedTuple):
    """An event as pages show it: long texts are cut; `length` is that of the whole data."""

    id: int
    time: datetime
    txid: int
    type: str | None
    data: str
    length: int
    extras: Mapping[str, str]


class Filter(NamedTuple):
    """Which events of a queue: of a type, such as order.*, and with these extras."""

    queue: str
    type: str | None
    extras: tuple[tuple[str, str], ...] = ()

    def wanted(self, since: datetime | None = None) -> tick_ranges.Wanted:
        """Return the filter as `tick_ranges` takes it."""
        extras = {name: [value] for name, value in self.extras}
        return tick_ranges.Wanted((self.type,) if self.type else (), extras, since)


def collect_events(view: View) -> dict[str, Any]:
    """Return the newest events, or the oldest from a tick or time on."""
    chosen, after, client = _filter(view), view.number("tick"), view.client
    queue, since, context = chosen.queue, _time(view), _context(chosen)
    context |= {"tick": after, "since": view.text("since")}
    if not view.rights.payloads:
        return context
    wanted = chosen.wanted(since)
    if after is None and since is None:
        return {**context, "events": _newest(client, chosen)}
    expired: list[datetime] = []
    if after is None:
        after = tick_ranges.find_start(client, queue, wanted, expired.append)
    events = tick_ranges.oldest(client, queue, SHOWN_ROWS, wanted, after, ticks=TICKS)
    last = tick_ranges.find_last(client, queue)
    further = after + TICKS if len(events) < SHOWN_ROWS and after + TICKS < last.tick_id else None
    context |= {"next": further, "expired": expired}
    return {**context, "events": [shown(each) for each in events]}


def follow(view: View) -> dict[str, Any]:
    """Return the newest events. Each snapshot makes the page anew, with those that came."""
    chosen = _filter(view)
    context = {**_context(chosen), "follows": True}
    if view.rights.payloads:
        context["events"] = _newest(view.client, chosen)
    return context


def _newest(client: Client, chosen: Filter) -> list[ShownEvent]:
    events, _last = tick_ranges.newest(
        client, chosen.queue, SHOWN_ROWS, chosen.wanted(), ticks=TICKS
    )
    return [shown(each) for each in reversed(events)]


def shown(event: Event) -> ShownEvent:
    """Return an event as pages show it."""
    data = event.data or ""
    extras = {name: getattr(event, name) for name in EXTRAS}
    return ShownEvent(
        event.id,
        event.time,
        event.txid,
        event.type,
        data[:MOST_DATA],
        len(data),
        {name: value[:MOST_EXTRA] for name, value in extras.items() if value is not None},
    )


def _filter(view: View) -> Filter:
    extras = ((name, view.text(name)) for name in EXTRAS)
    known = tuple((name, value) for name, value in extras if value is not None)
    return Filter(view.needed("queue"), view.text("type"), known)


def _context(chosen: Filter) -> dict[str, Any]:
    return {
        "queue": chosen.queue,
        "type": chosen.type,
        "values": dict(chosen.extras),
        "extras": EXTRAS,
        "rows": SHOWN_ROWS,
        "tick": None,
        "since": None,
        "follows": False,
        "events": None,
        "next": None,
        "expired": None,
    }


def _time(view: View) -> datetime | None:
    text = view.text("since")
    try:
        found = None if text is None else datetime.fromisoformat(text)
    except ValueError as exc:
        raise InvalidArgument("since is no time: write 2026-01-31T14:00") from exc
    return found.replace(tzinfo=timezone.utc) if found and not found.tzinfo else found


EVENTS = Page("/events", "events.html", collect_events)
FOLLOW = Page("/events/follow", "events.html", follow, live=True)
