"""Calls for consumers: registration, batches, retries. They need the role pgq_reader."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from pgqpy.calls import _check as check
from pgqpy.calls._call import Call, Row, record, subscription, value
from pgqpy.records import Batch, BatchInfo, Event

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pgqpy.calls._check import After, Interval


def register_consumer(queue: str, consumer: str) -> Call[int]:
    """Register a consumer at the latest tick: 1 new, 0 was there. PGQ register_consumer, 1.4."""
    params = (check.name("queue", queue), check.name("consumer", consumer))
    sql = "select pgq.register_consumer(%s::text, %s::text)"
    return Call("register_consumer", sql, params, value, subscription(queue, consumer))


def register_consumer_at(queue: str, consumer: str, tick: int | None) -> Call[int]:
    """Register a consumer at a tick, or move it there: 1 new, 0 was there. PGQ 1.4."""
    names = (check.name("queue", queue), check.name("consumer", consumer))
    params = (*names, check.maybe_bigint("tick", tick))
    sql = "select pgq.register_consumer_at(%s::text, %s::text, %s::bigint)"
    error_data = {**subscription(queue, consumer), "tick_id": tick}
    return Call("register_consumer_at", sql, params, value, error_data)


def unregister_consumer(queue: str, consumer: str) -> Call[int]:
    """Remove a consumer with its retry events: how many went, 0 not found. PGQ 1.4."""
    params = (check.name("queue", queue), check.name("consumer", consumer))
    sql = "select pgq.unregister_consumer(%s::text, %s::text)"
    return Call("unregister_consumer", sql, params, value, subscription(queue, consumer))


_NEXT_BATCH_INFO = """
    select batch_id, cur_tick_id, prev_tick_id, cur_tick_time, prev_tick_time,
           cur_tick_event_seq, prev_tick_event_seq
      from pgq.next_batch_info(%s::text, %s::text)"""
_NEXT_BATCH_CUSTOM = """
    select batch_id, cur_tick_id, prev_tick_id, cur_tick_time, prev_tick_time,
           cur_tick_event_seq, prev_tick_event_seq
      from pgq.next_batch_custom(%s::text, %s::text, %s::interval, %s::integer, %s::interval)"""


def next_batch(
    queue: str,
    consumer: str,
    min_lag: Interval | None,
    min_count: int | None,
    min_interval: Interval | None,
) -> Call[Batch | None]:
    """Open the next batch, or give the open one again. PGQ next_batch_info, next_batch_custom, 1.4.

    With limits, the batch is merged from ticks until it is large or long enough.
    """

    def decode(rows: list[Row]) -> Batch | None:
        row = rows[0]
        return None if row[0] is None else Batch(row[0], queue, consumer, *row[1:])

    params = (check.name("queue", queue), check.name("consumer", consumer))
    error_data = subscription(queue, consumer)
    if min_lag is None and min_count is None and min_interval is None:
        return Call("next_batch_info", _NEXT_BATCH_INFO, params, decode, error_data)
    limits = (
        check.interval("min_lag", min_lag),
        check.count("min_count", min_count),
        check.interval("min_interval", min_interval),
    )
    return Call("next_batch_custom", _NEXT_BATCH_CUSTOM, (*params, *limits), decode, error_data)


_BATCH_INFO = """
    select queue_name, consumer_name, batch_start, batch_end, prev_tick_id, tick_id, lag,
           seq_start, seq_end
      from pgq.get_batch_info(%s::bigint)"""


def get_batch_info(batch: Batch | int) -> Call[BatchInfo | None]:
    """Tell what an open batch is; None if there is no such batch. PGQ get_batch_info, 1.4."""
    batch_id = check.batch_id(batch)
    return Call(
        "get_batch_info", _BATCH_INFO, (batch_id,), record(BatchInfo), {"batch_id": batch_id}
    )


def event_retry(batch: Batch | int, event: Event | int, after: After) -> Call[int]:
    """Give one event again later: 1 queued, 0 was queued already. PGQ event_retry, 1.4.

    The delay counts from the clock, not from the start of a transaction that may have run long.
    """
    batch_id, event_id = check.batch_id(batch), check.event_id(event)
    error_data = {"batch_id": batch_id, "event_id": event_id}
    if isinstance(after, datetime):
        sql = "select pgq.event_retry(%s::bigint, %s::bigint, %s::timestamptz)"
        params = (batch_id, event_id, check.timestamp("after", after))
        return Call("event_retry", sql, params, value, error_data)
    sql_delay = """
        select pgq.event_retry(%s::bigint, %s::bigint,
                               pg_catalog.clock_timestamp() operator(pg_catalog.+) %s::interval)"""
    params_delay = (batch_id, event_id, check.required_interval("after", after))
    return Call("event_retry", sql_delay, params_delay, value, error_data)


def event_retry_many(batch: Batch | int, retries: Iterable[tuple[Event, After]]) -> Call[int]:
    """Give many events again later, in one call; how many were newly queued.

    The events carry their txids, so that the server finds each by an index probe. The delays count
    from the clock, as in event_retry, while the function counts from the transaction's start.
    """
    batch_id = check.batch_id(batch)
    ids, txids, delays = [], [], []
    for event, after in retries:
        check.event(event)
        ids.append(event.id)
        txids.append(event.txid)
        delays.append(_delay(after))
    sql = """
        select pgq.event_retry(%s::bigint, %s::bigint[], %s::bigint[], array(
            select after operator(pg_catalog.+)
                       (pg_catalog.clock_timestamp() operator(pg_catalog.-) pg_catalog.now())
              from pg_catalog.unnest(%s::interval[]) with ordinality delay (after, number)
             order by number))"""
    error_data = {"batch_id": batch_id}
    return Call(
        "event_retry", sql, (batch_id, ids, txids, delays), value, error_data, pgqpy_only=True
    )


def batch_retry(batch: Batch | int, after: Interval) -> Call[int]:
    """Give every event of a batch again later: how many were queued. PGQ batch_retry, 1.4.

    PGQ takes whole seconds here: a fraction is rounded up.
    """
    batch_id = check.batch_id(batch)
    seconds = math.ceil(check.required_interval("after", after).total_seconds())
    sql = "select pgq.batch_retry(%s::bigint, %s::integer)"
    return Call(
        "batch_retry", sql, (batch_id, min(seconds, 2**31 - 1)), value, {"batch_id": batch_id}
    )


def finish_batch(batch: Batch | int) -> Call[bool]:
    """Close a batch; False if it was not open any more. PGQ finish_batch, 1.4."""
    batch_id = check.batch_id(batch)
    sql = "select pgq.finish_batch(%s::bigint)"
    return Call("finish_batch", sql, (batch_id,), _is_one, {"batch_id": batch_id})


def _is_one(rows: list[Row]) -> bool:
    """Read the one column of the one row, which is 1 or 0."""
    return bool(rows[0][0] == 1)


def _delay(after: After) -> timedelta:
    if isinstance(after, datetime):
        after = max(check.timestamp("after", after) - datetime.now(timezone.utc), timedelta(0))
    return check.required_interval("after", after)
