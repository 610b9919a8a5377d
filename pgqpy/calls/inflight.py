"""Calls for receivers, who claim the events of shared consumers. They need pgq_reader."""

from __future__ import annotations

from datetime import timezone
from typing import TYPE_CHECKING, Literal

from pgqpy.calls import _check as check
from pgqpy.calls._call import Call, Row, consumer_call
from pgqpy.calls.dead_events import failure_of
from pgqpy.errors import InvalidArgument
from pgqpy.records import Event, Failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import LiteralString

    from pgqpy.calls._check import After, Interval

MAX_LIMIT = 10_000  # events

Key = Literal["type", "extra1", "extra2", "extra3", "extra4"]
"""The field that orders events: those with the same value are handled in their order."""

Claimed = list[tuple[int, int, Event]]
"""Of each event that a call claimed: the token of the claim, the attempt, the event."""

_EVENTS: LiteralString = """
    select token, attempts, ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data, ev_extra1,
           ev_extra2, ev_extra3, ev_extra4 from pgq."""


def register_shared_consumer(queue: str, consumer: str, key: Key | None) -> Call[int]:
    """Register a shared consumer, or make a plain one shared: 1 new, 0 was there."""
    sql = "select pgq.register_shared_consumer(%s::text, %s::text, %s::text)"
    name = check.maybe_name("key", key)
    return consumer_call("register_shared_consumer", sql, queue, consumer, name, pgqpy_only=True)


def receive(queue: str, consumer: str, limit: int, lease: Interval) -> Call[Claimed]:
    """Claim events, in a transaction without any other call."""
    sql = _EVENTS + "receive(%s::text, %s::text, %s::integer, %s::interval, null, true)"
    params = _limits(limit, lease)
    return consumer_call("receive", sql, queue, consumer, *params, decode=_claimed, pgqpy_only=True)


def done_receive(
    queue: str, consumer: str, token: int, ids: Sequence[int], limit: int, lease: Interval
) -> Call[Claimed]:
    """End events of one claim and claim the next, in a transaction without any other call."""
    sql = (
        _EVENTS
        + "done_receive(%s::text, %s::text, %s::bigint, %s::bigint[], %s::int, %s::interval)"
    )
    params = (token, list(ids), *_limits(limit, lease))
    return consumer_call(
        "done_receive",
        sql,
        queue,
        consumer,
        *params,
        decode=_claimed,
        pgqpy_only=True,
        event_ids=list(ids),
    )


def done(queue: str, consumer: str, events: Sequence[tuple[int, int]]) -> Call[list[int]]:
    """End events, each given with its token; return the ids of those whose lease has ended."""
    sql = """
        select ids, pgq.done(%s::text, %s::text, token, ids)
          from (select token, pg_catalog.array_agg(distinct id) as ids
                  from (select pg_catalog.unnest(%s::bigint[]) as token,
                               pg_catalog.unnest(%s::bigint[]) as id) e
                 group by token order by token) claim"""
    params = ([token for token, _ in events], [event_id for _, event_id in events])
    return consumer_call("done", sql, queue, consumer, *params, decode=_lost, pgqpy_only=True)


def retry(
    queue: str, consumer: str, token: int, event_id: int, after: After, *, keep_key: bool
) -> Call[int]:
    """Return an event, to be claimed again later: 1; 0: the lease has ended."""
    sql = """
        select pgq.retry(%s::text, %s::text, %s::bigint, %s::bigint[], %s::interval,
                         %s::boolean)"""
    params = (token, [event_id], check.delay(after), bool(keep_key))
    return consumer_call("retry", sql, queue, consumer, *params, pgqpy_only=True)


def release(queue: str, consumer: str, token: int, ids: Sequence[int]) -> Call[int]:
    """Return events that no handler has begun; return how many: fewer, the lease has ended."""
    sql = "select pgq.release(%s::text, %s::text, %s::bigint, %s::bigint[])"
    return consumer_call("release", sql, queue, consumer, token, list(ids), pgqpy_only=True)


def dead(
    queue: str, consumer: str, token: int, event_id: int, why: str | BaseException | Failure
) -> Call[int]:
    """Give an event up: 1; 0: the lease has ended."""
    sql = """
        select pgq.dead(%s::text, %s::text, %s::bigint, %s::bigint[], %s::text, %s::text,
                        %s::text)"""
    failure = failure_of(why)
    params = (token, [event_id], failure.reason, failure.error, failure.traceback)
    return consumer_call("dead", sql, queue, consumer, *params, pgqpy_only=True)


def extend(queue: str, consumer: str, token: int, lease: Interval) -> Call[int]:
    """Extend the lease of a claim; return how many events it still has."""
    sql = "select pgq.extend(%s::text, %s::text, %s::bigint, %s::interval)"
    length = check.required_interval("seconds", lease)
    return consumer_call("extend", sql, queue, consumer, token, length, pgqpy_only=True)


def _limits(limit: int, lease: Interval) -> Row:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_LIMIT:
        msg = f"limit must be a number of events from 1 to {MAX_LIMIT}, not {limit!r}"
        raise InvalidArgument(msg, parameter="limit")
    return limit, check.required_interval("lease", lease)


def _claimed(rows: list[Row]) -> Claimed:
    return [
        (token, attempt, Event(id_, time.astimezone(timezone.utc), *fields))
        for token, attempt, id_, time, *fields in rows
    ]


def _lost(rows: list[Row]) -> list[int]:
    """Of a claim that had fewer events, others may have all: which ones is not known."""
    return [event_id for ids, count in rows if count < len(ids) for event_id in ids]
