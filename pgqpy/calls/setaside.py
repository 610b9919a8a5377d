"""Calls that set events aside: several retries at once, and dead events."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from pgqpy.calls import _check as check
from pgqpy.calls._call import Call, records, value
from pgqpy.records import DeadEvent, Event

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pgqpy.calls._check import After
    from pgqpy.records import Batch


def event_retry_many(batch: Batch | int, retries: Iterable[tuple[Event, After]]) -> Call[int]:
    """Give many events again later, in one call; how many were newly queued.

    The events carry their txids, so that the server finds each by an index probe. The spans count
    from the clock, as in event_retry, while the function counts from the transaction's start.
    """
    batch_id = check.batch_id(batch)
    ids, txids, spans = [], [], []
    for event, after in retries:
        _must_be_event(event)
        ids.append(event.id)
        txids.append(event.txid)
        spans.append(_span(after))
    sql = """
        select pgq.event_retry(%s::bigint, %s::bigint[], %s::bigint[], array(
            select after operator(pg_catalog.+)
                       (pg_catalog.clock_timestamp() operator(pg_catalog.-) pg_catalog.now())
              from pg_catalog.unnest(%s::interval[]) with ordinality span (after, number)
             order by number))"""
    about = {"batch_id": batch_id}
    return Call("event_retry", sql, (batch_id, ids, txids, spans), value, about, beside=True)


def event_dead(batch: Batch | int, dead: Iterable[tuple[Event, str | None]]) -> Call[int]:
    """Give events up, each with its reason; how many were new."""
    batch_id = check.batch_id(batch)
    ids, txids, reasons = [], [], []
    for event, reason in dead:
        _must_be_event(event)
        ids.append(event.id)
        txids.append(event.txid)
        reasons.append(_reason(reason))
    sql = "select pgq.event_dead(%s::bigint, %s::bigint[], %s::bigint[], %s::text[])"
    about = {"batch_id": batch_id}
    return Call("event_dead", sql, (batch_id, ids, txids, reasons), value, about, beside=True)


_DEAD_EVENTS = """
    select dead_time, dead_reason, ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data,
           ev_extra1, ev_extra2, ev_extra3, ev_extra4
      from pgq.get_dead_events(%s::text, %s::text)"""


def get_dead_events(queue: str, consumer: str) -> Call[list[DeadEvent]]:
    """List the events a consumer gave up, by id."""
    params = (check.name("queue", queue), check.name("consumer", consumer))
    about = {"queue": queue, "consumer": consumer}
    return Call("get_dead_events", _DEAD_EVENTS, params, records(DeadEvent), about, beside=True)


def revive_dead_events(queue: str, consumer: str, event_ids: Iterable[int] | None) -> Call[int]:
    """Put dead events back through the retry queue; how many. None means all."""
    sql = "select pgq.revive_dead_events(%s::text, %s::text, %s::bigint[])"
    params = (check.name("queue", queue), check.name("consumer", consumer), _ids(event_ids))
    about = {"queue": queue, "consumer": consumer}
    return Call("revive_dead_events", sql, params, value, about, beside=True)


def delete_dead_events(queue: str, consumer: str, event_ids: Iterable[int] | None) -> Call[int]:
    """Delete dead events for good; how many. None means all."""
    sql = "select pgq.delete_dead_events(%s::text, %s::text, %s::bigint[])"
    params = (check.name("queue", queue), check.name("consumer", consumer), _ids(event_ids))
    about = {"queue": queue, "consumer": consumer}
    return Call("delete_dead_events", sql, params, value, about, beside=True)


def _must_be_event(event: object) -> None:
    if not isinstance(event, Event):
        msg = f"an Event is needed, not {type(event).__name__}: its txid finds it in the batch"
        raise TypeError(msg)


def _span(after: After) -> timedelta:
    if isinstance(after, datetime):
        after = max(check.moment("after", after) - datetime.now(timezone.utc), timedelta(0))
    return check.span("after", after)


def _reason(reason: str | None) -> str | None:
    """Write what PostgreSQL cannot hold as escapes: a reason is often the text of an exception."""
    if reason is None:
        return None
    return reason.replace("\0", "\\0").encode(errors="backslashreplace").decode()


def _ids(event_ids: Iterable[int] | None) -> list[int] | None:
    return None if event_ids is None else [check.event_id(event_id) for event_id in event_ids]
