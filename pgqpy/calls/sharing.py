"""Calls for shared consumers: settings, events by id, lists of what is in flight and of holders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pgqpy.calls import _check as check
from pgqpy.calls._call import Call, Row, consumer_call, records
from pgqpy.records import Holder, InflightInfo, KeptEvent, WaitingEvent, WaitingKey

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pgqpy.calls.inflight import Key


def set_consumer_limits(
    queue: str, consumer: str, *, per_key: int, limit_in_flight: int | None, rate: float | None
) -> Call[int]:
    """Change the limits of a shared consumer; None: no limit. 1 changed, 0 already so."""
    sql = """
        select pgq.set_consumer_limits(%s::text, %s::text, %s::integer, %s::integer,
                                       %s::double precision)"""
    params = (per_key, limit_in_flight, rate)
    return consumer_call("set_consumer_limits", sql, queue, consumer, *params)


def set_consumer_mode(
    queue: str,
    consumer: str,
    mode: Literal["plain", "shared"],
    key: Key | None = None,
    *,
    per_key: int = 1,
) -> Call[int]:
    """Make a consumer shared or plain, or change its key: 1 changed, 0 already so.

    Raises ConsumerRunning while a process runs it, or its events are claimed; with another key,
    while events are in flight.
    """
    sql = "select pgq.set_consumer_mode(%s::text, %s::text, %s::text, %s::text, %s::integer)"
    params = (mode, check.maybe_name("key", key), per_key)
    return consumer_call("set_consumer_mode", sql, queue, consumer, *params)


def set_due(queue: str, consumer: str, event_id: int, due: datetime) -> Call[int]:
    """Delay an event in flight by its id: 1; 0: it is not in flight.

    One that is delayed keeps its key; another gives up its place in the order of its key. The lease
    of one that is claimed ends then.
    """
    sql = "select pgq.set_due(%s::text, %s::text, %s::bigint, %s::timestamptz)"
    return consumer_call("set_due", sql, queue, consumer, event_id, due)


def finish_event(queue: str, consumer: str, event_id: int, *, keep: bool) -> Call[int]:
    """End an event in flight by its id, and perhaps keep it: 1; 0: it is not in flight."""
    sql = "select pgq.finish_event(%s::text, %s::text, %s::bigint, %s::boolean)"
    return consumer_call("finish_event", sql, queue, consumer, event_id, keep)


def bury_event(queue: str, consumer: str, event_id: int, reason: str) -> Call[int]:
    """Make an event in flight dead by its id: 1; 0: it is not in flight."""
    sql = "select pgq.bury_event(%s::text, %s::text, %s::bigint, %s::text)"
    return consumer_call("bury_event", sql, queue, consumer, event_id, reason)


def get_kept_events(
    queue: str, consumer: str, *, limit: int | None, after: int | None
) -> Call[list[KeptEvent]]:
    """Return events that `finish_event` kept, the lowest id first; None: all."""
    sql = """
        select kept_at, ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2,
               ev_extra3, ev_extra4
          from pgq.get_kept_events(%s::text, %s::text, %s::integer, %s::bigint)"""
    params, decode = (check.count("limit", limit), after), records(KeptEvent)
    return consumer_call("get_kept_events", sql, queue, consumer, *params, decode=decode)


def delete_kept_events(queue: str, consumer: str, event_ids: Sequence[int] | None) -> Call[int]:
    """Delete kept events; None: all. Returns how many."""
    sql = "select pgq.delete_kept_events(%s::text, %s::text, %s::bigint[])"
    ids = None if event_ids is None else list(event_ids)
    return consumer_call("delete_kept_events", sql, queue, consumer, ids)


def get_waiting_keys(queue: str, consumer: str, limit: int = 10) -> Call[list[WaitingKey]]:
    """Return the keys with the most waiting events."""
    sql = """
        select key, waiting, first_id, first_time, first_state, first_attempts, first_due
          from pgq.get_waiting_keys(%s::text, %s::text, %s::integer)"""
    most, decode = check.count("limit", limit), records(WaitingKey)
    return consumer_call("get_waiting_keys", sql, queue, consumer, most, decode=decode)


def get_waiting_events(
    queue: str,
    consumer: str,
    *,
    state: str | None = None,
    ids: Sequence[int] | None = None,
    limit: int | None = None,
) -> Call[list[WaitingEvent]]:
    """Return the events that wait for a retry, and those that wait behind them."""
    sql = """
        select state, key, due, attempts, ev_id, ev_time, ev_type, ev_data, ev_extra1, ev_extra2,
               ev_extra3, ev_extra4
          from pgq.get_waiting_events(%s::text, %s::text, %s::text, %s::bigint[], %s::integer)"""
    params = (state, None if ids is None else list(ids), check.count("limit", limit))
    decode = records(WaitingEvent)
    return consumer_call("get_waiting_events", sql, queue, consumer, *params, decode=decode)


def get_inflight(queue: str | None = None, consumer: str | None = None) -> Call[list[InflightInfo]]:
    """Return what shared consumers have in flight: of one queue, of one name, or all."""
    sql = """
        select queue_name, consumer_name, order_key, per_key, limit_in_flight, rate, lag, fresh,
               returned, claimed, delayed, waiting, in_pieces, oldest, oldest_claim, suspects,
               crashes
          from pgq.get_inflight(%s::text, %s::text)"""
    params: Row = (check.maybe_name("queue", queue), check.maybe_name("consumer", consumer))
    return Call("get_inflight", sql, params, records(InflightInfo))


def get_holders(queue: str | None = None, consumer: str | None = None) -> Call[list[Holder]]:
    """Return the holders of claims of shared consumers: of one queue, of one name, or all."""
    sql = """
        select queue_name, consumer_name, holder, name, since, lease_until, events, oldest_claim
          from pgq.get_holders(%s::text, %s::text)"""
    params: Row = (check.maybe_name("queue", queue), check.maybe_name("consumer", consumer))
    return Call("get_holders", sql, params, records(Holder))


def queue_length(queue: str, consumer: str) -> Call[int]:
    """Return the exact number of events that are left for a consumer; it reads them."""
    sql = "select pgq.queue_length(%s::text, %s::text)"
    return consumer_call("queue_length", sql, queue, consumer)
