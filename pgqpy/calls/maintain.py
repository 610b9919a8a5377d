"""Calls for tickers. They need the role pgq_ticker or pgq_admin, force_tick pgq_reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.calls import _check as check
from pgqpy.calls._call import Call, queue_call, record, records, value
from pgqpy.errors import InvalidArgument
from pgqpy.records import MaintOperation, Tick

if TYPE_CHECKING:
    from datetime import datetime


def ticker() -> Call[int]:
    """Tick every queue that is due; return the number of ticked queues."""
    return Call("ticker", "select pgq.ticker()", (), value)


def ticker_queue(queue: str) -> Call[int | None]:
    """Tick one queue if it is due: the tick's id, or None."""
    return queue_call("ticker", "select pgq.ticker(%s::text)", queue)


def ticker_external(
    queue: str, tick: int | None, time: datetime | None, event_seq: int | None
) -> Call[int]:
    """Store a tick that was taken elsewhere."""
    if tick is None or time is None or event_seq is None:
        msg = "a tick that was taken elsewhere needs all of tick, time and event_seq"
        raise InvalidArgument(msg, parameter="tick")
    more = (check.bigint("tick", tick), time, check.bigint("event_seq", event_seq))
    sql = "select pgq.ticker(%s::text, %s::bigint, %s::timestamptz, %s::bigint)"
    return queue_call("ticker", sql, queue, *more, tick_id=tick)


def tick_queue(queue: str) -> Call[Tick | None]:
    """Tick one queue now, due or not; None if it takes no ticks here."""
    sql = "select tick_id, tick_snapshot::text from pgq.tick_queue(%s::text)"
    return queue_call("tick_queue", sql, queue, decode=record(Tick))


def force_tick(queue: str) -> Call[int | None]:
    """Make the queue due for the next ticker run; return its last tick's id."""
    return queue_call("force_tick", "select pgq.force_tick(%s::text)", queue)


def maint_retry_events() -> Call[int]:
    """Put due retry events back into their queues; return how many. Repeat until it is 0."""
    return Call("maint_retry_events", "select pgq.maint_retry_events()", (), value)


def maint_history() -> Call[int]:
    """Write a row of the history, for `get_history`: 1; 0: none is due yet.

    The ticker calls it once a minute.
    """
    return Call("maint_history", "select pgq.maint_history()", (), value)


def maint_operations() -> Call[list[MaintOperation]]:
    """List the maintenance functions that are due, in order. PGQ maint_operations.

    One that returns 1 is to be called again at once.
    """
    sql = "select func_name, func_arg from pgq.maint_operations()"
    return Call("maint_operations", sql, (), records(MaintOperation))
