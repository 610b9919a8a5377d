"""Calls for delayed events: those that are not yet in their queue."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pgqpy.calls import _check as check
from pgqpy.calls import payload
from pgqpy.calls._call import Call, queue_call, records, value
from pgqpy.errors import InvalidArgument
from pgqpy.records import DelayedCount, DelayedEvent, DelayedMoves

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pgqpy.calls.arrays import Piece
    from pgqpy.calls.json_values import Default
    from pgqpy.calls.payload import Payload


def due_time(
    delay: check.Interval | None, deliver_at: datetime | None
) -> timedelta | datetime | None:
    """Take one of the two, or none: a length of time from now, or a time."""
    if delay is not None and deliver_at is not None:
        msg = "delay and deliver_at exclude each other: give one of them"
        raise InvalidArgument(msg, parameter="delay")
    if deliver_at is not None:
        return check.timestamp("deliver_at", deliver_at)
    return check.interval("delay", delay)


def insert_event_at(
    queue: str,
    due: timedelta | datetime,
    *fields: Payload,
    limit: int,
    default: Default | None = None,
) -> Call[int]:
    """Insert one event that is due at a time, or after a delay by the server's clock."""
    octets = payload.encode(fields, limit, default)
    texts = (None if each is None else each.decode() for each in octets)
    sql = """
        select pgq.insert_event_at(
            %s::text, coalesce(%s::timestamptz,
                pg_catalog.clock_timestamp() operator(pg_catalog.+) %s::interval),
            %s::text, %s::text, %s::text, %s::text, %s::text, %s::text)"""
    return queue_call("insert_event_at", sql, queue, *time_and_delay(due), *texts, pgqpy_only=True)


def time_and_delay(
    due: timedelta | datetime | None,
) -> tuple[datetime | None, timedelta | None]:
    """Return what due_time found as two parameters, of which one is None at least."""
    return (due, None) if isinstance(due, datetime) else (None, due)


def time_of(due: timedelta | datetime) -> Call[datetime]:
    """Return the time, by the server's clock: one for all pieces of a load."""
    sql = """
        select coalesce(%s::timestamptz,
            pg_catalog.clock_timestamp() operator(pg_catalog.+) %s::interval)"""
    return Call("clock_timestamp", sql, time_and_delay(due), value)


def insert_events_at(queue: str, time: datetime, piece: Piece) -> Call[list[int]]:
    """Insert the events of a piece, due at a time, with one call; return their ids in order."""
    sql = """
        select pgq.insert_events_at(%s::text, %s::timestamptz, %s::text[], %s::text[], %s::text[],
                                    %s::text[], %s::text[], %s::text[])"""
    params = (check.name("queue", queue), time, *piece.columns)
    error_data = {"queue": queue, "index": piece.first}
    return Call("insert_events_at", sql, params, _ids, error_data, pgqpy_only=True)


def _ids(rows: list[tuple[int]]) -> list[int]:
    return [row[0] for row in rows]


def get_delayed_events(queue: str, limit: int | None) -> Call[list[DelayedEvent]]:
    """List the delayed events of a queue, the one that is due first."""
    sql = """
        select ev_deliver_at, ev_id, ev_time, ev_txid, ev_type, ev_data,
               ev_extra1, ev_extra2, ev_extra3, ev_extra4
          from pgq.get_delayed_events(%s::text, %s::integer)"""
    more = check.count("limit", limit)
    decode = records(DelayedEvent)
    return queue_call("get_delayed_events", sql, queue, more, decode=decode, pgqpy_only=True)


def get_delayed_counts(limit: int | None = 10_000) -> Call[list[DelayedCount]]:
    """Count the delayed events of each queue, and say for how long the first one is due.

    Each number is counted up to `limit`, so a million of them cost little; None: all.
    """
    sql = "select queue_name, delayed_events, overdue from pgq.get_delayed_counts(%s::integer)"
    params = (check.count("limit", limit),)
    return Call("get_delayed_counts", sql, params, records(DelayedCount), pgqpy_only=True)


def move_delayed_events(left_out: Iterable[str] = ()) -> Call[DelayedMoves]:
    """Move delayed events that are due into their queues. Repeat until none was moved.

    `left_out`: queues to leave alone. Needs the role pgq_ticker. Raises WrongTransaction.
    """
    sql = "select moved, next_delayed, next_retry from pgq.move_delayed_events(%s::text[])"
    names = [check.name("queue", each) for each in left_out]
    return Call("move_delayed_events", sql, (names,), _moves, pgqpy_only=True)


def _moves(rows: list[tuple[int, timedelta | None, timedelta | None]]) -> DelayedMoves:
    return DelayedMoves(*rows[0])
