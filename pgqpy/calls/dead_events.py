"""Calls for dead events: giving events up, listing, reviving and deleting them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.calls import _check as check
from pgqpy.calls._call import Call, batch_call, consumer_call, records
from pgqpy.records import DeadEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pgqpy.records import Batch, Event


def event_dead(batch: Batch | int, dead: Iterable[tuple[Event, str | None]]) -> Call[int]:
    """Give events up, each with its reason; return the number of new dead events."""
    ids, txids, reasons = [], [], []
    for event, reason in dead:
        check.event(event)
        ids.append(event.id)
        txids.append(event.txid)
        reasons.append(_reason(reason))
    sql = "select pgq.event_dead(%s::bigint, %s::bigint[], %s::bigint[], %s::text[])"
    return batch_call("event_dead", sql, batch, ids, txids, reasons, pgqpy_only=True)


def get_dead_events(queue: str, consumer: str) -> Call[list[DeadEvent]]:
    """List the events that a consumer gave up, by id."""
    sql = """
        select dead_time, dead_reason, ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data,
               ev_extra1, ev_extra2, ev_extra3, ev_extra4
          from pgq.get_dead_events(%s::text, %s::text)"""
    decode = records(DeadEvent)
    return consumer_call("get_dead_events", sql, queue, consumer, decode=decode, pgqpy_only=True)


def revive_dead_events(queue: str, consumer: str, event_ids: Iterable[int] | None) -> Call[int]:
    """Put dead events, or all of them (None), into the retry queue; return their number."""
    sql = "select pgq.revive_dead_events(%s::text, %s::text, %s::bigint[])"
    ids = _ids(event_ids)
    return consumer_call("revive_dead_events", sql, queue, consumer, ids, pgqpy_only=True)


def delete_dead_events(queue: str, consumer: str, event_ids: Iterable[int] | None) -> Call[int]:
    """Delete dead events, or all of them (None), for good; return their number."""
    sql = "select pgq.delete_dead_events(%s::text, %s::text, %s::bigint[])"
    ids = _ids(event_ids)
    return consumer_call("delete_dead_events", sql, queue, consumer, ids, pgqpy_only=True)


def _reason(reason: str | None) -> str | None:
    """Write what PostgreSQL cannot hold as escapes: a reason is often the text of an exception."""
    if reason is None:
        return None
    return reason.replace("\0", "\\0").encode(errors="backslashreplace").decode()


def _ids(event_ids: Iterable[int] | None) -> list[int] | None:
    return None if event_ids is None else [check.event_id(event_id) for event_id in event_ids]
