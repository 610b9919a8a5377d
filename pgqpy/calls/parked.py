"""Calls for parked events: those that wait behind a failed one of their key. Need pgq_reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.calls import _check as check
from pgqpy.calls._call import Call, Row, batch_call, consumer_call, records
from pgqpy.records import Batch, Event, Failure, ParkedKey

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta

MOST_TAKEN = 1000  # events of a batch of take_parked


def event_park(
    batch: Batch | int,
    parked: Iterable[tuple[Event, str, timedelta | None, Failure]],
) -> Call[int]:
    """Park events: each with its key, and with a delay if it failed; None: it waits behind one."""
    rows = [
        (event.id, event.txid, key, after, failure.error, failure.reason)
        for event, key, after, failure in parked
    ]
    ids, txids, keys, delays, errors, reasons = (list(each) for each in zip(*rows, strict=True))
    sql = """
        select pgq.event_park(%s::bigint, %s::bigint[], %s::bigint[], %s::text[], %s::interval[],
                              %s::text[], %s::text[])"""
    params = (ids, txids, keys, delays, errors, reasons)
    return batch_call("event_park", sql, batch, *params, pgqpy_only=True)


def next_parked(queue: str, consumer: str) -> Call[timedelta | None]:
    """Return how long until the next parked event is due; None if none is parked."""
    sql = "select pgq.next_parked(%s::text, %s::text)"
    return consumer_call("next_parked", sql, queue, consumer, pgqpy_only=True)


def take_parked(queue: str, consumer: str, limit: int) -> Call[Batch | None]:
    """Open a batch of parked events that are due; None if there is none, or a batch is open."""
    sql = """
        select batch_id, cur_tick_id, prev_tick_id, cur_tick_time, prev_tick_time,
               cur_tick_event_seq, prev_tick_event_seq
          from pgq.take_parked(%s::text, %s::text, %s::integer)"""

    def decode(rows: list[Row]) -> Batch | None:
        row = rows[0]
        return None if row[0] is None else Batch(row[0], queue, consumer, *row[1:])

    return consumer_call("take_parked", sql, queue, consumer, limit, decode=decode, pgqpy_only=True)


def get_parked_keys(batch: Batch | int, keys: Iterable[str]) -> Call[set[str]]:
    """Return which of these keys are parked, or were parked again in this batch."""
    sql = "select pgq.get_parked_keys(%s::bigint, %s::text[])"
    decode = _set
    return batch_call("get_parked_keys", sql, batch, list(keys), decode=decode, pgqpy_only=True)


def get_parked(
    queue: str, consumer: str, keys: Iterable[str] | None = None, *, limit: int | None = None
) -> Call[list[ParkedKey]]:
    """List the parked keys of a consumer with `on_error = "park"`, with their first events.

    The key that waits longest is the first. `keys`: only these. `limit`: at most this many. The
    events of a key are counted up to 10,000. Raises ConsumerNotFound.
    """
    sql = """
        select park_key, events, park_since, park_after, park_error, park_reason, ev_id, ev_time,
               ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
          from pgq.get_parked(%s::text, %s::text, %s::text[], %s::integer)"""
    params = (_keys(keys), check.count("limit", limit))
    decode = records(ParkedKey)
    return consumer_call(
        "get_parked", sql, queue, consumer, *params, decode=decode, pgqpy_only=True
    )


def retry_parked(queue: str, consumer: str, keys: Iterable[str] | None = None) -> Call[int]:
    """Let the first events of parked keys (None: of all) be due now.

    Returns how many were not due before. Raises ConsumerNotFound.
    """
    sql = "select pgq.retry_parked(%s::text, %s::text, %s::text[])"
    return consumer_call("retry_parked", sql, queue, consumer, _keys(keys), pgqpy_only=True)


def delete_parked(queue: str, consumer: str, keys: Iterable[str]) -> Call[list[int]]:
    """Delete the first events of parked keys for good; return their ids.

    The next event of each key is due then. An event that a handler may have just now is left out.
    Waits for a transaction that handles events. Raises ConsumerNotFound.
    """
    sql = "select pgq.delete_parked(%s::text, %s::text, %s::text[])"
    decode = _ids
    return consumer_call(
        "delete_parked", sql, queue, consumer, _keys(keys), decode=decode, pgqpy_only=True
    )


def _keys(keys: Iterable[str] | None) -> list[str] | None:
    if isinstance(keys, str):
        raise TypeError(f"keys is a list of texts, not the text {keys!r}")
    return None if keys is None else [check.name("key", key) for key in keys]


def _set(rows: list[Row]) -> set[str]:
    return {row[0] for row in rows}


def _ids(rows: list[Row]) -> list[int]:
    return [row[0] for row in rows]
