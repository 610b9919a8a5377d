"""Calls that hide events from consumers: cancel_event needs pgq_writer, skip_event pgq_reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.calls import _check as check
from pgqpy.calls._call import Call, consumer_call, queue_call, records
from pgqpy.errors import InvalidArgument
from pgqpy.records import Cancellation, Event

if TYPE_CHECKING:
    from collections.abc import Iterable

    Events = Event | int | Iterable[Event | int]


def cancel_event(queue: str, events: Events) -> Call[list[Cancellation]]:
    """Hide events from all consumers that have not had them."""
    sql = """
        select ev_id, consumer_name, state from pgq.cancel_event(%s::text, %s::bigint[])"""
    decode = records(Cancellation)
    return queue_call("cancel_event", sql, queue, _ids(events), decode=decode, pgqpy_only=True)


def skip_event(queue: str, consumer: str, events: Events) -> Call[list[Cancellation]]:
    """Hide events from one consumer."""
    sql = """
        select ev_id, consumer_name, state
          from pgq.skip_event(%s::text, %s::text, %s::bigint[])"""
    decode = records(Cancellation)
    return consumer_call(
        "skip_event", sql, queue, consumer, _ids(events), decode=decode, pgqpy_only=True
    )


def _ids(events: Events) -> list[int]:
    if isinstance(events, (Event, int)):  # an Event is a tuple too
        return [check.event_id(events)]
    if isinstance(events, str):
        msg = f"events are Events or ids, not the text {events!r}"
        raise InvalidArgument(msg, parameter="events")
    return [check.event_id(event) for event in events]
