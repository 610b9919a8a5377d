"""Calls of the ticker daemon. Needs the role pgq_ticker or pgq_admin, force_tick pgq_reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.calls import _check as check
from pgqpy.calls._call import Call, column, pairs, record, records, value
from pgqpy.errors import InvalidArgument
from pgqpy.records import MaintOperation, NextTick, Tick

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta


def ticker() -> Call[int]:
    """Tick every queue that is due; how many were. PGQ ticker, 1.5."""
    return Call("ticker", "select pgq.ticker()", (), value)


def ticker_queue(queue: str) -> Call[int | None]:
    """Tick one queue if it is due: the tick's id, or None. PGQ ticker, 1.5."""
    sql = "select pgq.ticker(%s::text)"
    return Call("ticker", sql, (check.name("queue", queue),), value, {"queue": queue})


def ticker_external(
    queue: str, tick: int | None, time: datetime | None, event_seq: int | None
) -> Call[int]:
    """Store a tick that was taken elsewhere. PGQ ticker, 1.5."""
    if tick is None or time is None or event_seq is None:
        msg = "a tick that was taken elsewhere needs all of tick, time and event_seq"
        raise InvalidArgument(msg, parameter="tick")
    params = (
        check.name("queue", queue),
        check.big("tick", tick),
        time,
        check.big("event_seq", event_seq),
    )
    sql = "select pgq.ticker(%s::text, %s::bigint, %s::timestamptz, %s::bigint)"
    return Call("ticker", sql, params, value, {"queue": queue, "tick_id": tick})


def tick_queue(queue: str) -> Call[Tick | None]:
    """Tick one queue now, due or not; None if it takes no ticks here."""
    sql = "select tick_id, tick_snapshot::text from pgq.tick_queue(%s::text)"
    params = (check.name("queue", queue),)
    return Call("tick_queue", sql, params, record(Tick), {"queue": queue}, beside=True)


def force_tick(queue: str) -> Call[int | None]:
    """Make the queue due for the next ticker run; its last tick's id. PGQ force_tick, 1.5."""
    sql = "select pgq.force_tick(%s::text)"
    return Call("force_tick", sql, (check.name("queue", queue),), value, {"queue": queue})


def ticker_activity() -> Call[dict[str, int]]:
    """Return the last event id of every queue that is ticked here. Writes nothing, takes no xid."""
    sql = "select queue_name, event_seq from pgq.ticker_activity()"
    return Call("ticker_activity", sql, (), pairs, beside=True)


def ticker_pulse(first: int, last: int, excluded: Sequence[int]) -> Call[str]:
    """Sum up the last event ids of the queues with ids from first to last, but for some."""
    sql = "select pgq.ticker_pulse(%s::integer, %s::integer, %s::integer[])"
    return Call("ticker_pulse", sql, (first, last, list(excluded)), value, beside=True)


def ticker_due() -> Call[list[str]]:
    """Name the queues that ticker(queue) would tick now. Writes nothing, takes no xid."""
    return Call("ticker_due", "select * from pgq.ticker_due()", (), column, beside=True)


def find_tick_helper(
    queue_id: int,
    prev_tick_id: int,
    prev_tick_time: datetime,
    prev_tick_seq: int,
    min_count: int | None,
    min_interval: timedelta | float | None,
) -> Call[NextTick | None]:
    """Find the tick that would end a batch. PGQ find_tick_helper, 1.4."""
    params = (queue_id, prev_tick_id, prev_tick_time, prev_tick_seq)
    limits = (check.count("min_count", min_count), check.interval("min_interval", min_interval))
    sql = """
        select next_tick_id, next_tick_time, next_tick_seq
          from pgq.find_tick_helper(%s::integer, %s::bigint, %s::timestamptz, %s::bigint,
                                    %s::bigint, %s::interval)"""
    return Call("find_tick_helper", sql, params + limits, record(NextTick))


def maint_retry_events() -> Call[int]:
    """Put events whose time has come back into their queues: how many. PGQ 1.7."""
    return Call("maint_retry_events", "select pgq.maint_retry_events()", (), value)


def maint_rotate_tables_step1(queue: str) -> Call[int]:
    """Switch a queue to its next table if that is due and safe. PGQ 1.7."""
    sql = "select pgq.maint_rotate_tables_step1(%s::text)"
    return Call(
        "maint_rotate_tables_step1", sql, (check.name("queue", queue),), value, {"queue": queue}
    )


def maint_rotate_tables_step2() -> Call[int]:
    """Note that every switch is visible to all. PGQ 1.7."""
    return Call("maint_rotate_tables_step2", "select pgq.maint_rotate_tables_step2()", (), value)


def maint_tables_to_vacuum() -> Call[list[str]]:
    """Name the small tables to vacuum. PGQ 1.7."""
    return Call("maint_tables_to_vacuum", "select * from pgq.maint_tables_to_vacuum()", (), column)


def maint_operations() -> Call[list[MaintOperation]]:
    """List the duties that are due, in order. PGQ 1.7."""
    sql = "select func_name, func_arg from pgq.maint_operations()"
    return Call("maint_operations", sql, (), records(MaintOperation))


def maint_ticks(queue: str) -> Call[int]:
    """Delete ticks nobody needs: 1 = call again at once, 0 = done."""
    sql = "select pgq.maint_ticks(%s::text)"
    params = (check.name("queue", queue),)
    return Call("maint_ticks", sql, params, value, {"queue": queue}, beside=True)


def maint_recent_ticks() -> Call[int]:
    """Compact the table of the latest ticks if it has grown: 1 = call again at once, 0 = done."""
    return Call("maint_recent_ticks", "select pgq.maint_recent_ticks()", (), value, beside=True)


def maint_positions() -> Call[int]:
    """Trim the log of positions: 1 = call again at once, 0 = done."""
    return Call("maint_positions", "select pgq.maint_positions()", (), value, beside=True)


def maint_stages() -> Call[int]:
    """Give up stages that wait in vain: 0 = done."""
    return Call("maint_stages", "select pgq.maint_stages()", (), value, beside=True)
