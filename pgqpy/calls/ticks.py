"""Calls for reading tick ranges without a batch.

Tick information is public; events need the role pgq_reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import sql

from pgqpy.calls import _check as check
from pgqpy.calls import read
from pgqpy.calls._call import Call, records, subscription, value
from pgqpy.records import TickInfo, TickStage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import LiteralString

_TICK_INFO = """
    select tick_id, tick_time, tick_snapshot::text, tick_event_seq, events
      from pgq.get_tick_info(%s::text, %s::bigint, %s::bigint)"""


def get_tick_info(
    queue: str, from_tick: int | None = None, to_tick: int | None = None
) -> Call[list[TickInfo]]:
    """List the ticks of a queue from which on every event is still there."""
    limits = (check.maybe_bigint("from_tick", from_tick), check.maybe_bigint("to_tick", to_tick))
    params = (check.name("queue", queue), *limits)
    error_data = {"queue": queue}
    return Call("get_tick_info", _TICK_INFO, params, records(TickInfo), error_data, pgqpy_only=True)


def get_tick_stages(queue: str, from_tick: int, to_tick: int) -> Call[list[TickStage]]:
    """List the stages whose events came between two ticks."""
    params = _range(queue, from_tick, to_tick)
    text = "select * from pgq.get_tick_stages(%s::text, %s::bigint, %s::bigint)"
    error_data = {"queue": queue}
    return Call("get_tick_stages", text, params, records(TickStage), error_data, pgqpy_only=True)


def tick_event_sql(
    queue: str, from_tick: int, to_tick: int, stages: Iterable[int] | None = None
) -> Call[str]:
    """Return the SELECT that reads the events between two ticks, of all or of some stages."""
    params: tuple[object, ...] = _range(queue, from_tick, to_tick)
    text = "select pgq.tick_event_sql(%s::text, %s::bigint, %s::bigint)"
    if stages is not None:
        params = (*params, [check.bigint("stage", stage) for stage in stages])
        text = "select pgq.tick_event_sql(%s::text, %s::bigint, %s::bigint, %s::bigint[])"
    return Call("tick_event_sql", text, params, value, {"queue": queue}, pgqpy_only=True)


def pin_range(queue: str, consumer: str, from_tick: int, to_tick: int) -> Call[int]:
    """Keep the ticks that a subscription will read: 1 done, 0 they were kept already."""
    params = _subscription(queue, consumer, from_tick, to_tick)
    text = "select pgq.pin_range(%s::text, %s::text, %s::bigint, %s::bigint)"
    return Call("pin_range", text, params, value, subscription(queue, consumer), pgqpy_only=True)


def advance_subscription(queue: str, consumer: str, from_tick: int, to_tick: int) -> Call[int]:
    """Move a subscription if it is at the first tick: 1 moved, 0 it is at the second already."""
    params = _subscription(queue, consumer, from_tick, to_tick)
    text = "select pgq.advance_subscription(%s::text, %s::text, %s::bigint, %s::bigint)"
    return Call(
        "advance_subscription", text, params, value, subscription(queue, consumer), pgqpy_only=True
    )


def events(queue: str, from_tick: int, to_tick: int) -> read.EventSet:
    """Name the events between two ticks."""
    params = _range(queue, from_tick, to_tick)
    call: LiteralString = "pgq.get_tick_events(%s::text, %s::bigint, %s::bigint)"
    return read.EventSet("get_tick_events", call, params, f"queue {queue!r}", {"queue": queue})


def declare_events(
    name: str, queue: str, from_tick: int, to_tick: int, *, held: bool
) -> sql.Composed:
    """Open a cursor over the events between two ticks; a held one outlives its transaction."""
    statement = sql.SQL(
        "declare {} no scroll cursor {} for select {} from pgq.get_tick_events({}, {}, {})"
    )
    hold = sql.SQL("with hold" if held else "without hold")
    ticks = map(sql.Literal, _range(queue, from_tick, to_tick))
    return statement.format(sql.Identifier(name), hold, sql.SQL(read.COLUMNS), *ticks)


def _range(queue: str, from_tick: int, to_tick: int) -> tuple[str, int, int]:
    ticks = (check.bigint("from_tick", from_tick), check.bigint("to_tick", to_tick))
    return (check.name("queue", queue), *ticks)


def _subscription(
    queue: str, consumer: str, from_tick: int, to_tick: int
) -> tuple[str, str, int, int]:
    name, first, last = _range(queue, from_tick, to_tick)
    return (name, check.name("consumer", consumer), first, last)
