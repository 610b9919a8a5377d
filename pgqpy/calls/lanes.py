"""Calls for consumers with lanes. They need pgq_reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pgqpy.calls import _check as check
from pgqpy.calls._call import Call, Row, consumer_call
from pgqpy.calls.share import limit_params
from pgqpy.records import Batch, Lanes, Part

if TYPE_CHECKING:
    from typing_extensions import LiteralString, Unpack

    from pgqpy.calls._check import Interval
    from pgqpy.calls.share import TakeLimits


class Look(NamedTuple):
    """What take_lane or take_parked_lane found.

    Attributes:
        busy: how many lanes other runs hold, if there is no batch.
        subscription: the consumer's; None: the batch was taken over meanwhile.
        key: of the lane: while the key is changed, old lanes have another one.
    """

    part: Part | None
    busy: int
    subscription: int | None
    key: str | None


def set_lanes(queue: str, consumer: str, lanes: int, key: str) -> Call[int]:
    """Divide a consumer into lanes by a key: "type", or "extra1" to "extra4".

    Several processes then take batches of it, and events of one key are handled in order. The
    number and the key may be changed while it runs. Returns 1 if they changed, else 0. Raises
    ConsumerNotFound, InvalidArgument, and ConsumerRunning while it runs without lanes, or while an
    earlier change is not done.
    """
    sql = "select pgq.set_lanes(%s::text, %s::text, %s::integer, %s::text)"
    params = (check.count("lanes", lanes), check.name("key", key))
    return consumer_call("set_lanes", sql, queue, consumer, *params, pgqpy_only=True)


def register_lanes(queue: str, consumer: str, lanes: int, key: str) -> Call[Lanes]:
    """Divide a consumer into lanes unless it has some; return what it has."""
    sql = "select lanes, key from pgq.register_lanes(%s::text, %s::text, %s::integer, %s::text)"
    params = (check.count("lanes", lanes), check.name("key", key))
    return consumer_call(
        "register_lanes",
        sql,
        queue,
        consumer,
        *params,
        decode=lambda rows: Lanes(*rows[0]),
        pgqpy_only=True,
    )


_LOOK: LiteralString = """
    select batch_id, cur_tick_id, prev_tick_id, cur_tick_time, prev_tick_time,
           cur_tick_event_seq, prev_tick_event_seq, part_size, tries, worker, died, busy,
           subscription, lane_key
"""


def take_lane(
    queue: str,
    consumer: str,
    *,
    holder: str,
    key: str | None = None,
    **limits: Unpack[TakeLimits],
) -> Call[Look]:
    """Take the next batch of a lane, which has the name of the lane, consumer.lane.

    `asked` and `key` are the filter of the class, as JSON, and its key.
    """
    sql = (
        _LOOK
        + """
      from pgq.take_lane(%s::text, %s::text, %s::text, %s::interval, %s::interval, %s::interval,
                         %s::integer, %s::interval, %s::integer, %s::jsonb, %s::text)"""
    )
    params = (
        check.name("holder", holder),
        *limit_params(limits),
        check.maybe_name("key", key),
    )
    return _look("take_lane", sql, queue, consumer, params)


def take_parked_lane(
    queue: str,
    consumer: str,
    limit: int,
    *,
    holder: str,
    lease: Interval | None = None,
    key: str | None = None,
) -> Call[Look]:
    """Take a batch of parked events of one lane, at most so many."""
    sql = (
        _LOOK
        + """
      from pgq.take_parked_lane(%s::text, %s::text, %s::text, %s::integer, %s::interval,
                                %s::text)"""
    )
    params = (
        check.name("holder", holder),
        check.count("limit", limit),
        check.interval("lease", lease),
        check.maybe_name("key", key),
    )
    return _look("take_parked_lane", sql, queue, consumer, params)


def _look(function: str, sql: LiteralString, queue: str, consumer: str, params: Row) -> Call[Look]:
    def decode(rows: list[Row]) -> Look:
        batch, *ticks, part_size, tries, lane, died, busy, subscription, key = rows[0]
        if batch is None:
            return Look(None, busy or 0, subscription, None)
        info = Batch(batch, queue, f"{consumer}.{lane}", *ticks)
        part = Part(info, part_size, tries, tuple(died or ()))
        return Look(part, 0, subscription, key)

    return consumer_call(function, sql, queue, consumer, *params, decode=decode, pgqpy_only=True)
