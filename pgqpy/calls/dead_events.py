"""Calls for dead events: giving events up, listing, reviving and deleting them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.calls import _check as check
from pgqpy.calls._call import Call, records, subscription, value
from pgqpy.records import DeadEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pgqpy.records import Batch, Event


def event_dead(batch: Batch | int, dead: Iterable[tuple[Event, str | None]]) -> Call[int]:
    """Give events up, each with its reason; how many were new."""
    batch_id = check.batch_id(batch)
    ids, txids, reasons = [], [], []
    for event, reason in dead:
        check.event(event)
        ids.append(event.id)
        txids.append(event.txid)
        reasons.append(_reason(reason))
    sql = "select pgq.event_dead(%s::bigint, %s::bigint[], %s::bigint[], %s::text[])"
    error_data = {"batch_id": batch_id}
    return Call(
        "event_dead", sql, (batch_id, ids, txids, reasons), value, error_data, pgqpy_only=True
    )


_DEAD_EVENTS = """
    select dead_time, dead_reason, ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data,
           ev_extra1, ev_extra2, ev_extra3, ev_extra4
      from pgq.get_dead_events(%s::text, %s::text)"""


def get_dead_events(queue: str, consumer: str) -> Call[list[DeadEvent]]:
    """List the events a consumer gave up, by id."""
    params = (check.name("queue", queue), check.name("consumer", consumer))
    error_data = subscription(queue, consumer)
    return Call(
        "get_dead_events", _DEAD_EVENTS, params, records(DeadEvent), error_data, pgqpy_only=True
    )


def revive_dead_events(queue: str, consumer: str, event_ids: Iterable[int] | None) -> Call[int]:
    """Put dead events back through the retry queue; how many. None means all."""
    sql = "select pgq.revive_dead_events(%s::text, %s::text, %s::bigint[])"
    params = (check.name("queue", queue), check.name("consumer", consumer), _ids(event_ids))
    error_data = subscription(queue, consumer)
    return Call("revive_dead_events", sql, params, value, error_data, pgqpy_only=True)


def delete_dead_events(queue: str, consumer: str, event_ids: Iterable[int] | None) -> Call[int]:
    """Delete dead events for good; how many. None means all."""
    sql = "select pgq.delete_dead_events(%s::text, %s::text, %s::bigint[])"
    params = (check.name("queue", queue), check.name("consumer", consumer), _ids(event_ids))
    error_data = subscription(queue, consumer)
    return Call("delete_dead_events", sql, params, value, error_data, pgqpy_only=True)


def _reason(reason: str | None) -> str | None:
    """Write what PostgreSQL cannot hold as escapes: a reason is often the text of an exception."""
    if reason is None:
        return None
    return reason.replace("\0", "\\0").encode(errors="backslashreplace").decode()


def _ids(event_ids: Iterable[int] | None) -> list[int] | None:
    return None if event_ids is None else [check.event_id(event_id) for event_id in event_ids]
