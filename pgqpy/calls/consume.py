"""Calls for consumers: registration, batches, retries. They need pgq_reader."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from pgqpy.calls import _check as check
from pgqpy.calls._call import Call, Row, batch_call, consumer_call, record
from pgqpy.errors import InvalidArgument
from pgqpy.records import Attempt, Batch, BatchInfo, Event, SeekResult

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pgqpy.calls._check import After, Interval


def register_consumer(queue: str, consumer: str) -> Call[int]:
    """Register a consumer at the last tick: 1 new, 0 was there."""
    sql = "select pgq.register_consumer(%s::text, %s::text)"
    return consumer_call("register_consumer", sql, queue, consumer)


def register_consumer_at(queue: str, consumer: str, tick: int | None) -> Call[int]:
    """Register a consumer at a tick, or move it there: 1 new, 0 was there."""
    sql = "select pgq.register_consumer_at(%s::text, %s::text, %s::bigint)"
    position = check.maybe_bigint("tick", tick)
    return consumer_call("register_consumer_at", sql, queue, consumer, position, tick_id=tick)


Place = int | datetime | Literal["beginning", "end"]
"""Where a consumer goes: behind a tick, to a time, to the first or the last tick."""

_ENDS = {"beginning": "-infinity", "end": "infinity"}


def seek_consumer(queue: str, consumer: str, place: Place, *, discard: bool) -> Call[SeekResult]:
    """Move a consumer to a place."""
    tick, time = None, None
    if isinstance(place, str):
        time = _ENDS.get(place)
        if time is None:
            msg = f"place must be a tick, a datetime, 'beginning' or 'end', not {place!r}"
            raise InvalidArgument(msg, parameter="place")
    elif isinstance(place, datetime):
        time = check.timestamp("place", place).isoformat()
    else:
        tick = check.bigint("place", place)
    sql = """
        select tick_id, tick_time, dropped
          from pgq.seek_consumer(%s::text, %s::text, %s::bigint, %s::boolean, %s::timestamptz)"""
    params = (tick, bool(discard), time)
    return consumer_call(
        "seek_consumer",
        sql,
        queue,
        consumer,
        *params,
        decode=lambda rows: SeekResult(*rows[0]),
        tick_id=tick,
    )


def unregister_consumer(queue: str, consumer: str) -> Call[int]:
    """Remove a consumer with its workers; return how many registrations were removed."""
    sql = "select pgq.unregister_consumer(%s::text, %s::text)"
    return consumer_call("unregister_consumer", sql, queue, consumer)


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
    """Open the next batch, or return the open one; with limits, merge ticks until they are met."""

    def decode(rows: list[Row]) -> Batch | None:
        row = rows[0]
        return None if row[0] is None else Batch(row[0], queue, consumer, *row[1:])

    if min_lag is None and min_count is None and min_interval is None:
        return consumer_call("next_batch_info", _NEXT_BATCH_INFO, queue, consumer, decode=decode)
    limits = (
        check.interval("min_lag", min_lag),
        check.count("min_count", min_count),
        check.interval("min_interval", min_interval),
    )
    sql = _NEXT_BATCH_CUSTOM
    return consumer_call("next_batch_custom", sql, queue, consumer, *limits, decode=decode)


def get_batch_info(batch: Batch | int) -> Call[BatchInfo | None]:
    """Return what an open batch is; None if there is no such batch."""
    sql = """
        select queue_name, consumer_name, batch_start, batch_end, prev_tick_id, tick_id, lag,
               seq_start, seq_end
          from pgq.get_batch_info(%s::bigint)"""
    return batch_call("get_batch_info", sql, batch, decode=record(BatchInfo))


def event_retry(batch: Batch | int, event: Event | int, after: After) -> Call[int]:
    """Put one event into the retry queue: 1 queued, 0 was queued already.

    The delay counts from the clock, not from the start of a transaction that may have run long.
    """
    event_id = check.event_id(event)
    delay = check.delay(after)
    if isinstance(after, datetime):
        sql = "select pgq.event_retry(%s::bigint, %s::bigint, %s::timestamptz)"
        time = check.timestamp("after", after)
        return batch_call("event_retry", sql, batch, event_id, time, event_id=event_id)
    sql_delay = """
        select pgq.event_retry(%s::bigint, %s::bigint,
                               pg_catalog.clock_timestamp() operator(pg_catalog.+) %s::interval)"""
    return batch_call("event_retry", sql_delay, batch, event_id, delay, event_id=event_id)


def event_retry_many(batch: Batch | int, retries: Iterable[tuple[Event, After]]) -> Call[int]:
    """Put many events into the retry queue; return the number of newly queued ones.

    The events carry their txids, so that the server finds each by an index probe. The delays count
    from the clock, as in event_retry, while the function counts from the transaction's start.
    """
    ids, txids, delays = [], [], []
    for event, after in retries:
        check.event(event)
        ids.append(event.id)
        txids.append(event.txid)
        delays.append(check.delay(after))
    sql = """
        select pgq.event_retry(%s::bigint, %s::bigint[], %s::bigint[], array(
            select after operator(pg_catalog.+)
                       (pg_catalog.clock_timestamp() operator(pg_catalog.-) pg_catalog.now())
              from pg_catalog.unnest(%s::interval[]) with ordinality delay (after, number)
             order by number))"""
    return batch_call("event_retry", sql, batch, ids, txids, delays)


def batch_retry(batch: Batch | int, after: Interval) -> Call[int]:
    """Put every event of a batch into the retry queue; return the number of queued ones.

    PGQ takes whole seconds here: a fraction is rounded up.
    """
    seconds = math.ceil(check.required_interval("after", after).total_seconds())
    sql = "select pgq.batch_retry(%s::bigint, %s::integer)"
    return batch_call("batch_retry", sql, batch, min(seconds, 2**31 - 1))


def finish_batch(batch: Batch | int) -> Call[bool]:
    """Close a batch; False if it was not open any more."""
    sql = "select pgq.finish_batch(%s::bigint)"
    return batch_call("finish_batch", sql, batch, decode=_is_one)


def finish_part(
    batch: Batch | int,
    up_to: Event | int,
    position: int | None = None,
    attempts: int | None = None,
) -> Call[bool]:
    """Finish a part of a batch; False if it is not open, or not at this position any more."""
    batch_id, last = check.batch_id(batch), check.event_id(up_to)
    params = (batch_id, last, check.maybe_bigint("position", position), attempts)
    sql = "select pgq.finish_part(%s::bigint, %s::bigint, %s::bigint, %s::integer)"
    error_data = {"batch_id": batch_id, "event_id": last}
    return Call("finish_part", sql, params, _is_one, error_data)


_OPEN_BATCH = """
    select batch_id, cur_tick_id, prev_tick_id, cur_tick_time, prev_tick_time,
           cur_tick_event_seq, prev_tick_event_seq, attempts, "position"
      from pgq.open_batch(%s::text, %s::text, null, %s::integer, %s::interval, %s::bigint)"""


def open_batch(
    queue: str,
    consumer: str,
    min_count: int | None,
    min_interval: Interval | None,
    held: int | None,
) -> Call[Attempt | None]:
    """Open the next batch, or the open one again, and count the attempt, unless it is `held`."""

    def decode(rows: list[Row]) -> Attempt | None:
        batch_id, *ticks, attempts, pos_no = rows[0]
        if batch_id is None:
            return None
        return Attempt(Batch(batch_id, queue, consumer, *ticks), attempts, pos_no)

    params = (
        check.count("min_count", min_count),
        check.interval("min_interval", min_interval),
        held,
    )
    return consumer_call("open_batch", _OPEN_BATCH, queue, consumer, *params, decode=decode)


def release_batch(batch: Batch | int) -> Call[bool]:
    """Take the attempt of an open batch back; False if it is not open."""
    sql = "select pgq.release_batch(%s::bigint)"
    return batch_call("release_batch", sql, batch, decode=_is_one)


def _is_one(rows: list[Row]) -> bool:
    """Read the one column of the one row, which is 1 or 0."""
    return bool(rows[0][0] == 1)
