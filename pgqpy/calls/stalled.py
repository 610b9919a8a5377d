"""Calls about consumers that are too far behind. They need pgq_reader, those that read no role."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pgqpy.calls import _check as check
from pgqpy.calls._call import Call, consumer_call, queue_call, records
from pgqpy.records import RotationTable, StalledInfo

if TYPE_CHECKING:
    from pgqpy.calls._check import Interval

    Policy = Literal["warn", "detach"]


def set_stall_policy(
    queue: str,
    consumer: str,
    policy: Policy,
    *,
    after: Interval | None = None,
    size: int | None = None,
) -> Call[int]:
    """Decide what happens when a consumer is so far behind that rotation waits for it.

    "warn": the ticker's log, doctor and metrics name it. "detach": rotation stops waiting, and
    calls for its events raise ConsumerDetached; its retried, dead and parked events stay.

    Args:
        queue: the queue.
        consumer: the consumer.
        policy: "warn", as at the beginning, or "detach".
        after: seconds or a timedelta: the age of the first tick that it has not finished.
        size: bytes of the queue's event tables. What comes first counts.

    Returns 1 if that changed, else 0. Raises ConsumerNotFound, InvalidArgument.
    """
    sql = """
        select pgq.set_stall_policy(%s::text, %s::text, %s::text, %s::interval, %s::bigint)"""
    limits = (check.interval("after", after), check.maybe_bigint("size", size))
    name = check.name("policy", policy)
    return consumer_call("set_stall_policy", sql, queue, consumer, name, *limits, pgqpy_only=True)


def reattach_consumer(queue: str, consumer: str, *, from_earliest: bool = False) -> Call[int]:
    """Attach a detached consumer again: it goes on where it was. Returns 0 if it is attached.

    If events after its position are gone, it raises RangeExpired, which names the earliest tick;
    with `from_earliest` the consumer goes on from there.
    """
    sql = "select pgq.reattach_consumer(%s::text, %s::text, %s::boolean)"
    return consumer_call(
        "reattach_consumer", sql, queue, consumer, bool(from_earliest), pgqpy_only=True
    )


def get_stalled_info(queue: str | None = None) -> Call[list[StalledInfo]]:
    """List the consumers that a rotation waits for, and those that are detached."""
    sql = """
        select queue_name, consumer_name, policy, stall_after, stall_bytes, detached, held_since,
               held_for, held_bytes, exceeded, is_live
          from pgq.get_stalled_info(%s::text)"""
    decode = records(StalledInfo)
    return Call(
        "get_stalled_info", sql, (check.maybe_name("queue", queue),), decode, pgqpy_only=True
    )


def get_rotation_info(queue: str) -> Call[list[RotationTable]]:
    """List the event tables of a queue, and what keeps the next one from being truncated.

    Everybody may call it. Raises QueueNotFound.
    """
    sql = """
        select table_no, table_name, state, total_bytes, first_time, last_time, due, held_by, holder
          from pgq.get_rotation_info(%s::text)"""
    decode = records(RotationTable)
    return queue_call("get_rotation_info", sql, queue, decode=decode, pgqpy_only=True)
