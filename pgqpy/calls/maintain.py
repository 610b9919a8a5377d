"""Calls for tickers. They need the role pgq_ticker or pgq_admin, force_tick pgq_reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.calls import _check as check
from pgqpy.calls._call import Call, record, records, value
from pgqpy.errors import InvalidArgument
from pgqpy.records import MaintOperation, Tick

if TYPE_CHECKING:
    from datetime import datetime


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
        check.bigint("tick", tick),
        time,
        check.bigint("event_seq", event_seq),
    )
    sql = "select pgq.ticker(%s::text, %s::bigint, %s::timestamptz, %s::bigint)"
    return Call("ticker", sql, params, value, {"queue": queue, "tick_id": tick})


def tick_queue(queue: str) -> Call[Tick | None]:
    """Tick one queue now, due or not; None if it takes no ticks here."""
    sql = "select tick_id, tick_snapshot::text from pgq.tick_queue(%s::text)"
    params = (check.name("queue", queue),)
    return Call("tick_queue", sql, params, record(Tick), {"queue": queue}, pgqpy_only=True)


def force_tick(queue: str) -> Call[int | None]:
    """Make the queue due for the next ticker run; its last tick's id. PGQ force_tick, 1.5."""
    sql = "select pgq.force_tick(%s::text)"
    return Call("force_tick", sql, (check.name("queue", queue),), value, {"queue": queue})


def maint_retry_events() -> Call[int]:
    """Put events whose time has come back into their queues: how many. PGQ 1.7."""
    return Call("maint_retry_events", "select pgq.maint_retry_events()", (), value)


def maint_operations() -> Call[list[MaintOperation]]:
    """List the duties that are due, in order. PGQ 1.7."""
    sql = "select func_name, func_arg from pgq.maint_operations()"
    return Call("maint_operations", sql, (), records(MaintOperation))
