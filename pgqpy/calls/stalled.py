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
    queue: str, consumer: str, policy: Policy, after: Interval | None, size: int | None
) -> Call[int]:
    """Decide what happens when rotation waits for a consumer."""
    sql = """
        select pgq.set_stall_policy(%s::text, %s::text, %s::text, %s::interval, %s::bigint)"""
    limits = (check.interval("after", after), check.maybe_bigint("size", size))
    name = check.name("policy", policy)
    return consumer_call("set_stall_policy", sql, queue, consumer, name, *limits, pgqpy_only=True)


def reattach_consumer(queue: str, consumer: str, *, from_earliest: bool) -> Call[int]:
    """Attach a detached consumer again."""
    sql = "select pgq.reattach_consumer(%s::text, %s::text, %s::boolean)"
    return consumer_call(
        "reattach_consumer", sql, queue, consumer, bool(from_earliest), pgqpy_only=True
    )


def get_stalled_info(queue: str | None) -> Call[list[StalledInfo]]:
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
    """List the event tables of a queue, and what keeps the next one."""
    sql = """
        select table_no, table_name, state, total_bytes, first_time, last_time, due, held_by, holder
          from pgq.get_rotation_info(%s::text)"""
    decode = records(RotationTable)
    return queue_call("get_rotation_info", sql, queue, decode=decode, pgqpy_only=True)
