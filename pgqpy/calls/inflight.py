"""Calls that register a shared consumer, claim its events and end them. They need pgq_reader."""

from __future__ import annotations

from datetime import timezone
from typing import TYPE_CHECKING, Literal, NamedTuple

from pgqpy.calls import _check as check
from pgqpy.calls._call import Call, Row, consumer_call, value
from pgqpy.calls.dead_events import failure_of
from pgqpy.errors import InvalidArgument
from pgqpy.records import Event, Failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import LiteralString

    from pgqpy.calls._check import After, Interval

MAX_LIMIT = 10_000  # events of a claim, or of a key: see check_claim, check_limits

Key = Literal["type", "extra1", "extra2", "extra3", "extra4"]
"""The field that orders events: those with the same value are handled in their order."""

Claimed = list[tuple[int, int, Event]]
"""Of each event that a call claimed: the token of the claim, the attempt, the event."""


class Claim(NamedTuple):
    """What one call claimed. `retry` of each event says how often it was claimed before.

    Attributes:
        token: the claim's.
        suspect: the events may have killed a process: nothing else is to be in hand with them.
        events: those of a key in their order.
    """

    token: int
    suspect: bool
    events: list[Event]


_EVENTS: LiteralString = """
    select token, attempts, ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data, ev_extra1,
           ev_extra2, ev_extra3, ev_extra4 from pgq."""


def register_shared_consumer(
    queue: str,
    consumer: str,
    key: Key | None,
    *,
    per_key: int | None = None,
    limit_in_flight: int | None = None,
    rate: float | None = None,
) -> Call[int]:
    """Register a shared consumer with its settings: 1 new, 0 registered already with the same.

    With a per_key of None the limits are not compared: the consumer keeps those that it has.
    """
    sql = """
        select pgq.register_shared_consumer(%s::text, %s::text, %s::text, %s::integer,
                                            %s::integer, %s::double precision)"""
    params = (check.maybe_name("key", key), per_key, limit_in_flight, rate)
    return consumer_call("register_shared_consumer", sql, queue, consumer, *params)


def receive(queue: str, consumer: str, limit: int, lease: Interval) -> Call[Claimed]:
    """Claim events, in a transaction without any other call."""
    sql = _EVENTS + "receive(%s::text, %s::text, %s::integer, %s::interval, null, true)"
    params = _limits(limit, lease)
    return consumer_call("receive", sql, queue, consumer, *params, decode=_claimed)


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
        "done_receive", sql, queue, consumer, *params, decode=_claimed, event_ids=list(ids)
    )


def done_of(queue: str, consumer: str, token: int, ids: Sequence[int]) -> Call[int]:
    """End events of one claim; return how many: fewer, the lease has ended."""
    sql = "select pgq.done(%s::text, %s::text, %s::bigint, %s::bigint[])"
    return consumer_call("done", sql, queue, consumer, token, list(ids))


def done(queue: str, consumer: str, events: Sequence[tuple[int, int]]) -> Call[list[int]]:
    """End events, each given with its token; return the ids of those whose lease has ended."""
    sql = """
        select ids, pgq.done(%s::text, %s::text, token, ids)
          from (select token, pg_catalog.array_agg(distinct id) as ids
                  from (select pg_catalog.unnest(%s::bigint[]) as token,
                               pg_catalog.unnest(%s::bigint[]) as id) e
                 group by token order by token) claim"""
    params = ([token for token, _ in events], [event_id for _, event_id in events])
    return consumer_call("done", sql, queue, consumer, *params, decode=_lost)


def retry(
    queue: str, consumer: str, token: int, ids: Sequence[int], after: After, *, keep_key: bool
) -> Call[int]:
    """Return events, to be claimed again later; return how many: fewer, the lease has ended."""
    sql = """
        select pgq.retry(%s::text, %s::text, %s::bigint, %s::bigint[], %s::interval,
                         %s::boolean)"""
    params = (token, list(ids), check.delay(after), bool(keep_key))
    return consumer_call("retry", sql, queue, consumer, *params)


def release(queue: str, consumer: str, token: int, ids: Sequence[int]) -> Call[int]:
    """Return events that no handler has begun; return how many: fewer, the lease has ended."""
    sql = "select pgq.release(%s::text, %s::text, %s::bigint, %s::bigint[])"
    return consumer_call("release", sql, queue, consumer, token, list(ids))


def dead(
    queue: str,
    consumer: str,
    token: int,
    ids: Sequence[int],
    why: str | BaseException | Failure,
) -> Call[int]:
    """Give events up; return how many: fewer, the lease has ended."""
    sql = """
        select pgq.dead(%s::text, %s::text, %s::bigint, %s::bigint[], %s::text, %s::text,
                        %s::text)"""
    failure = failure_of(why)
    params = (token, list(ids), failure.reason, failure.error, failure.traceback)
    return consumer_call("dead", sql, queue, consumer, *params)


def extend(queue: str, consumer: str, token: int, lease: Interval) -> Call[int]:
    """Extend the lease of a claim; return how many events the claim still has."""
    sql = "select pgq.extend(%s::text, %s::text, %s::bigint, %s::interval)"
    length = check.required_interval("seconds", lease)
    return consumer_call("extend", sql, queue, consumer, token, length)


def hold(
    queue: str, consumer: str, name: str, lease: Interval, *, keeps_session: bool
) -> Call[int]:
    """Become the holder of claims, with one lease for all; return its number.

    With `keeps_session` the claims end at once when the session does.
    """
    sql = "select pgq.hold(%s::text, %s::text, %s::text, %s::interval, %s::boolean)"
    length = check.required_interval("lease", lease)
    return consumer_call("hold", sql, queue, consumer, name, length, keeps_session)


def renew(holder: int, lease: Interval) -> Call[int | None]:
    """Extend the lease of a holder; return how many its consumer has. None: it had ended."""
    length = check.required_interval("lease", lease)
    return Call("renew", "select pgq.renew(%s::integer, %s::interval)", (holder, length), value)


def release_holder(holder: int, but: Sequence[int] | None) -> Call[int]:
    """Return what a holder has claimed, except the claims with these tokens."""
    sql = "select pgq.release_holder(%s::integer, %s::bigint[])"
    return Call("release_holder", sql, (holder, None if but is None else list(but)), value)


def claim(
    queue: str, consumer: str, limit: int, lease: Interval, holder: int, *, alone: bool
) -> Call[Claim | None]:
    """Claim events for a holder. With `alone`, the call is the transaction's only one."""
    function: LiteralString = "receive" if alone else "done_receive"
    start: LiteralString = """
        select token, attempts, suspect, ev_id, ev_time, ev_txid, ev_type, ev_data, ev_extra1,
               ev_extra2, ev_extra3, ev_extra4 from pgq."""
    sql = start + (
        "receive(%s::text, %s::text, %s::integer, %s::interval, %s::integer, true)"
        if alone
        else "done_receive(%s::text, %s::text, null, null, %s::integer, %s::interval, %s::integer)"
    )
    params = (*_limits(limit, lease), holder)
    return consumer_call(function, sql, queue, consumer, *params, decode=_claim)


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


def _claim(rows: list[Row]) -> Claim | None:
    if not rows:
        return None
    events = [
        Event(id_, time.astimezone(timezone.utc), txid, attempt - 1 or None, *fields)
        for _, attempt, _, id_, time, txid, *fields in rows
    ]
    return Claim(rows[0][0], rows[0][2], events)


def _lost(rows: list[Row]) -> list[int]:
    """Return all ids of a claim that ended fewer: which events were lost is not known."""
    return [event_id for ids, count in rows if count < len(ids) for event_id in ids]
