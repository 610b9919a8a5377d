"""Calls for receivers of messages, over shared consumers. They need pgq_reader."""

from __future__ import annotations

from datetime import timedelta, timezone
from typing import TYPE_CHECKING

from pgqpy.calls import _check as check
from pgqpy.calls._call import Call, Row, consumer_call
from pgqpy.errors import InvalidArgument
from pgqpy.records import Event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import LiteralString

    from pgqpy.calls._check import Interval

MAX_LIMIT = 1000  # events
MIN_LEASE = timedelta(seconds=1)
MAX_LEASE = timedelta(days=1)  # a receiver that died keeps its messages for so long

_RECEIVE: LiteralString = """
    select batch_id, attempt, ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data, ev_extra1,
           ev_extra2, ev_extra3, ev_extra4
      from pgq.lease_batch(%s::text, %s::text, %s::integer, %s::interval)"""


def receive(
    queue: str, consumer: str, limit: int, lease: Interval
) -> Call[list[tuple[int, int, Event]]]:
    """Lease events; return the batch id, the attempt and the event of each."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_LIMIT:
        msg = f"limit must be a number of events from 1 to {MAX_LIMIT}, not {limit!r}"
        raise InvalidArgument(msg, parameter="limit")
    params = (limit, lease_time("lease", lease))
    return consumer_call(
        "receive", _RECEIVE, queue, consumer, *params, decode=_leased, pgqpy_only=True
    )


def finish_events(batch: int, event_id: int, before: Call[int] | None = None) -> Call[bool]:
    """Finish an event of a lease; False if it is not open any more.

    `before` is a call that puts the event elsewhere: event_retry, event_dead. Both are one
    statement. A pipeline would also take up what other threads or tasks send meanwhile.
    """
    sql: LiteralString = "select pgq.finish_events(%s::bigint, %s::bigint[])"
    params: Row = (batch, [event_id])
    if before is not None:
        sql = "with before as materialized (" + before.sql + ") " + sql + " from before"
        params = (*before.params, *params)
    error_data = {"batch_id": batch, "event_id": event_id}
    return Call("finish_events", sql, params, _is_one, error_data, pgqpy_only=True)


def finish_events_many(events: Sequence[tuple[int, int]]) -> Call[set[int]]:
    """Finish events, each with its batch; return the ids of the batches that are not open."""
    sql = "select * from pgq.finish_events(%s::bigint[], %s::bigint[])"
    params = ([batch for batch, _ in events], [event_id for _, event_id in events])
    return Call("finish_events", sql, params, _ids, pgqpy_only=True)


def lease_time(parameter: str, length: Interval) -> timedelta:
    """Return the length of a lease; InvalidArgument unless MIN_LEASE to MAX_LEASE."""
    found = check.required_interval(parameter, length)
    if found < MIN_LEASE:
        msg = f"{parameter} must be 1 second or more, not {found}: events are handled in it"
        raise InvalidArgument(msg, parameter=parameter)
    if found > MAX_LEASE:
        msg = f"{parameter} must be a day at most, not {found}: extend it while events are handled"
        raise InvalidArgument(msg, parameter=parameter)
    return found


def _leased(rows: list[Row]) -> list[tuple[int, int, Event]]:
    return [
        (batch, attempt, Event(id_, time.astimezone(timezone.utc), *fields))
        for batch, attempt, id_, time, *fields in rows
    ]


def _ids(rows: list[Row]) -> set[int]:
    return {batch for (batch,) in rows}


def _is_one(rows: list[Row]) -> bool:
    return bool(rows[0][0] == 1)
