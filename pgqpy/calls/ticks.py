"""Calls for reading tick ranges without a batch.

Tick information is public; events need the role pgq_reader. Two ticks name the same events whenever
they are read. A reader that stores tick ids itself, as a stream's checkpoint does, needs no
batches: only a subscription that keeps the events.

    client.call(pin_range("orders", "lake", at, to))  # before `to` is written down
    for event in client.get_tick_events("orders", at, to):
        print(event.data)
    client.call(advance_subscription("orders", "lake", at, to))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import sql

from pgqpy.calls import _check as check
from pgqpy.calls import read
from pgqpy.calls._call import Call, consumer_call, queue_call, records
from pgqpy.calls.filters import filter_json
from pgqpy.records import TickInfo, TickMark, TickStage

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from typing_extensions import LiteralString

    from pgqpy.calls.filters import Extras, Types


def get_tick_info(
    queue: str, from_tick: int | None = None, to_tick: int | None = None
) -> Call[list[TickInfo]]:
    """List the ticks, from one to another, whose later events are all still stored.

    Everybody may call it. Raises QueueNotFound.
    """
    ticks = (check.maybe_bigint("from_tick", from_tick), check.maybe_bigint("to_tick", to_tick))
    text = """
        select tick_id, tick_time, tick_snapshot::text, tick_event_seq, events
          from pgq.get_tick_info(%s::text, %s::bigint, %s::bigint)"""
    decode = records(TickInfo)
    return queue_call("get_tick_info", text, queue, *ticks, decode=decode)


def get_tick_marks(queue: str, marks: int = 200) -> Call[list[TickMark]]:
    """Return at most so many of the ticks that `get_tick_info` lists, about even in time.

    The first and the last are among them. It costs milliseconds, however many ticks are kept.
    Everybody may call it. Raises QueueNotFound, InvalidArgument.
    """
    text = """
        select tick_id, tick_time, tick_event_seq
          from pgq.get_tick_marks(%s::text, %s::integer)"""
    wanted, decode = check.count("marks", marks), records(TickMark)
    return queue_call("get_tick_marks", text, queue, wanted, decode=decode)


def get_tick_at(queue: str, time: datetime) -> Call[int | None]:
    """Return the tick after which all events come that were committed at a time or later.

    That is the last tick before the first later one; None if all ticks that can still be read from
    are later. Everybody may call it. Raises QueueNotFound.
    """
    text = "select pgq.get_tick_at(%s::text, %s::timestamptz)"
    return queue_call("get_tick_at", text, queue, check.timestamp("time", time))


def get_tick_stages(queue: str, from_tick: int, to_tick: int) -> Call[list[TickStage]]:
    """List the stages released after one tick, up to another: see commit_stage.

    Raises QueueNotFound, NotFound, and RangeExpired if rotation removed some of its events.
    """
    ticks, decode = _ticks(from_tick, to_tick), records(TickStage)
    text = "select * from pgq.get_tick_stages(%s::text, %s::bigint, %s::bigint)"
    return queue_call("get_tick_stages", text, queue, *ticks, decode=decode)


def tick_event_sql(
    queue: str,
    from_tick: int,
    to_tick: int,
    stages: Iterable[int] | None = None,
    *,
    types: Types | None = None,
    extras: Extras | None = None,
) -> Call[str]:
    """Return the SELECT that reads the events after one tick, up to another, in no order.

    Run it in the same transaction: rotation waits only for that. `stages`, from those that
    get_tick_stages lists, selects only their events; an empty list selects the events outside of
    stages, None all events. `types` and `extras`, as in set_consumer_filter, select only events of
    these types, with these values.

    Raises QueueNotFound, NotFound, RangeExpired if rotation removed some of its events, and
    InvalidArgument if a stage is not in the range.
    """
    ids = None if stages is None else [check.bigint("stage", stage) for stage in stages]
    params = (*_ticks(from_tick, to_tick), ids, filter_json(types, extras))
    text = "select pgq.tick_event_sql(%s::text, %s::bigint, %s::bigint, %s::bigint[], %s::jsonb)"
    return queue_call("tick_event_sql", text, queue, *params)


def pin_range(queue: str, consumer: str, from_tick: int, to_tick: int) -> Call[int]:
    """Keep the ticks of a range that a subscription will read; release the range before.

    Rotation removes no event after the subscription's position. But ticks that no consumer refers
    to are thinned out: pin a range before you store its ticks anywhere. Returns 1 if they are kept
    from now on, 0 if they were kept already.

    Raises ConsumerNotFound, NotFound, InvalidArgument if the range is empty or runs backwards,
    ConsumerRunning if it is beyond `from_tick` or somebody opened a batch.
    """
    ticks = _ticks(from_tick, to_tick)
    text = "select pgq.pin_range(%s::text, %s::text, %s::bigint, %s::bigint)"
    return consumer_call("pin_range", text, queue, consumer, *ticks)


def advance_subscription(queue: str, consumer: str, from_tick: int, to_tick: int) -> Call[int]:
    """Move a subscription from one tick to a later one, if it is at the first.

    Call it when you will not read the range again: rotation may remove it then. Returns 1 if it
    moved, 0 if it is at `to_tick` already.

    Raises ConsumerNotFound, NotFound, InvalidArgument if it would move backwards, ConsumerRunning
    if it is elsewhere or somebody opened a batch.
    """
    ticks = _ticks(from_tick, to_tick)
    text = "select pgq.advance_subscription(%s::text, %s::text, %s::bigint, %s::bigint)"
    return consumer_call("advance_subscription", text, queue, consumer, *ticks)


def events(queue: str, from_tick: int, to_tick: int) -> read.EventSet:
    """Describe the events between two ticks."""
    params = (check.name("queue", queue), *_ticks(from_tick, to_tick))
    from_clause: LiteralString = "pgq.get_tick_events(%s::text, %s::bigint, %s::bigint)"
    name, error_data = f"queue {queue!r}", {"queue": queue}
    return read.EventSet("get_tick_events", from_clause, params, name, error_data)


def declare_events(name: str, wanted: read.EventSet, *, held: bool) -> sql.Composed:
    """Open a cursor over the events between two ticks; a held one outlives its transaction."""
    statement = sql.SQL(
        "declare {} no scroll cursor {} for select {} from pgq.get_tick_events({}, {}, {})"
    )
    hold = sql.SQL("with hold" if held else "without hold")
    params = map(sql.Literal, wanted.params)
    return statement.format(sql.Identifier(name), hold, sql.SQL(read.COLUMNS), *params)


def _ticks(from_tick: int, to_tick: int) -> tuple[int, int]:
    return check.bigint("from_tick", from_tick), check.bigint("to_tick", to_tick)
