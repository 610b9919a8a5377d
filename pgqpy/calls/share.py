"""Calls for workers of shared consumers. They need pgq_reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

from pgqpy.calls import _check as check
from pgqpy.calls._call import Call, Row, batch_call, consumer_call
from pgqpy.records import Batch, Part

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pgqpy.calls._check import Interval

Mode = Literal["plain", "shared"]


def register_subconsumer(queue: str, consumer: str, subconsumer: str) -> Call[int]:
    """Register a worker, and its consumer if that is new: 1 new, 0 was there."""
    sql = "select pgq.register_subconsumer(%s::text, %s::text, %s::text)"
    name = check.name("subconsumer", subconsumer)
    return consumer_call("register_subconsumer", sql, queue, consumer, name, pgqpy_only=True)


def unregister_subconsumer(
    queue: str, consumer: str, subconsumer: str, *, drop_batch: bool
) -> Call[int]:
    """Remove a worker's registration: 1 removed, 0 there was none."""
    sql = "select pgq.unregister_subconsumer(%s::text, %s::text, %s::text, %s::integer)"
    params = (check.name("subconsumer", subconsumer), int(drop_batch))
    return consumer_call("unregister_subconsumer", sql, queue, consumer, *params, pgqpy_only=True)


def set_consumer_mode(queue: str, consumer: str, mode: Mode | None) -> Call[int]:
    """Decide whether one process runs a consumer ("plain") or workers share it ("shared").

    Its first run decides it too; None lets the next run decide. Returns 1 if that changed, else 0.
    Raises ConsumerNotFound, and ConsumerRunning while it runs or has a batch open.
    """
    sql = "select pgq.set_consumer_mode(%s::text, %s::text, %s::text)"
    return consumer_call("set_consumer_mode", sql, queue, consumer, mode, pgqpy_only=True)


class TakeLimits(TypedDict, total=False):
    """What a process asks for, as settings of its class; `asked` is its filter, as JSON."""

    lease: Interval | None
    dead_interval: Interval | None
    min_lag: Interval | None
    min_count: int | None
    min_interval: Interval | None
    wanted: int | None
    asked: str | None


def limit_params(limits: TakeLimits) -> Row:
    """Return them in the order that take_part and take_lane have."""
    return (
        check.interval("lease", limits.get("lease")),
        check.interval("dead_interval", limits.get("dead_interval")),
        check.interval("min_lag", limits.get("min_lag")),
        check.count("min_count", limits.get("min_count")),
        check.interval("min_interval", limits.get("min_interval")),
        check.count("wanted", limits.get("wanted")),
        limits.get("asked"),
    )


_TAKE_PART = """
    select batch_id, cur_tick_id, prev_tick_id, cur_tick_time, prev_tick_time,
           cur_tick_event_seq, prev_tick_event_seq, part_size, tries, worker, died
      from pgq.take_part(%s::text, %s::text, %s::text, %s::text, %s::interval, %s::interval,
                         %s::interval, %s::integer, %s::interval, %s::integer, %s::jsonb)"""


def take_part(
    queue: str,
    consumer: str,
    subconsumer: str | None,
    *,
    holder: str | None = None,
    **limits: Unpack[TakeLimits],
) -> Call[Part | None]:
    """Take a range for a worker; the batch has the name of its subconsumer, consumer.worker.

    Without a name, a worker with a holder and a lease gets a subconsumer that is free. `asked` is a
    filter as filter_json returns it: ConsumerRunning while the consumer has another one.
    """

    def decode(rows: list[Row]) -> Part | None:
        batch, *ticks, part_size, tries, worker, died = rows[0]
        if batch is None:
            return None
        info = Batch(batch, queue, f"{consumer}.{worker}", *ticks)
        return Part(info, part_size, tries, tuple(died or ()))

    params = (
        None if subconsumer is None else check.name("subconsumer", subconsumer),
        holder,
        *limit_params(limits),
    )
    return consumer_call(
        "take_part", _TAKE_PART, queue, consumer, *params, decode=decode, pgqpy_only=True
    )


def touch_batch(batch: Batch | int, lease: Interval | None = None) -> Call[bool]:
    """Send a heartbeat for a batch; False if it was not open any more."""
    sql = "select pgq.touch_batch(%s::bigint, %s::interval)"
    until = check.interval("lease", lease)
    return batch_call(
        "touch_batch", sql, batch, until, decode=lambda rows: bool(rows[0][0]), pgqpy_only=True
    )
