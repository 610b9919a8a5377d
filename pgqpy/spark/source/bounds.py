"""Conversion of start and end options (earliest, latest, a tick, a time) to ticks."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pgqpy import tick_ranges
from pgqpy.errors import InvalidArgument, NotFound, RangeExpired

if TYPE_CHECKING:
    from pgqpy.client import Client
    from pgqpy.spark.options import Bound
    from pgqpy.tick_ranges import Queue

logger = logging.getLogger("pgqpy.spark")


def resolve_bound(client: Client, queue: Queue, bound: Bound, *, fail_on_data_loss: bool) -> int:
    """Return the tick for a bound.

    Raises:
        NotFound: the tick is in the future, or compaction removed it.
        RangeExpired: rotation removed events after it. Without `fail_on_data_loss`, log a warning
            and return the earliest tick instead.
        InvalidArgument: the time is in the future.
    """
    if bound.kind == "earliest":
        return queue.first_tick
    if bound.kind == "latest":
        return queue.last_tick
    if bound.kind == "tick":
        return retained_tick(
            client, queue, bound.tick, bound.option, fail_on_data_loss=fail_on_data_loss
        )
    return _tick_at_time(client, queue, bound, fail_on_data_loss=fail_on_data_loss)


def retained_tick(
    client: Client, queue: Queue, tick: int, option: str, *, fail_on_data_loss: bool
) -> int:
    """Return `tick` if it and all events after it still exist; else as `resolve_bound`."""
    if tick > queue.last_tick:
        raise future_tick(queue, tick, option)
    if tick < queue.low_tick:
        return _earliest_instead(
            queue, tick, f"{option}: tick {tick}", fail_on_data_loss=fail_on_data_loss
        )
    around = tick_ranges.adjacent_ticks(client, queue, tick)
    if tick not in around:
        near = " or ".join(str(each) for each in around if each is not None)
        raise NotFound(
            f"{option}: queue {queue.name!r} has no tick {tick}, because compaction keeps one tick "
            f"per second: name {near}",
            queue=queue.name,
            tick_id=tick,
            sqlstate="PQ005",
        )
    return tick


def future_tick(queue: Queue, tick: int, option: str) -> NotFound:
    """Return the error for a tick after the queue's last one."""
    return NotFound(
        f"{option}: tick {tick} is in the future, the last tick of queue {queue.name!r} is "
        f"{queue.last_tick}: name one from {queue.first_tick} to {queue.last_tick}",
        queue=queue.name,
        tick_id=tick,
        sqlstate="PQ005",
    )


def _tick_at_time(client: Client, queue: Queue, bound: Bound, *, fail_on_data_loss: bool) -> int:
    time = bound.time
    assert time is not None  # noqa: S101  # a bound of this kind has a time
    now = client.connection.execute("select %s > now()", [time]).fetchone()
    if now is not None and now[0]:
        raise InvalidArgument(
            f"{bound.option}: {time.isoformat()} is in the future: use a time that has passed",
            parameter=bound.option,
        )
    tick = tick_ranges.tick_at(client, queue, time)
    if tick is not None:
        return tick
    if queue.low_tick == 0:  # nothing was ever rotated away
        return queue.first_tick
    what = f"{bound.option}: {time.isoformat()}"
    return _earliest_instead(queue, None, what, fail_on_data_loss=fail_on_data_loss)


def _earliest_instead(queue: Queue, tick: int | None, what: str, *, fail_on_data_loss: bool) -> int:
    problem = (
        f"{what} is older than the events that rotation kept in queue {queue.name!r}, "
        f"ticks {queue.first_tick} to {queue.last_tick}"
    )
    if fail_on_data_loss:
        raise RangeExpired(
            f'{problem}: start at the earliest tick (startingOffsets "earliest"), or set '
            "failOnDataLoss to false",
            queue=queue.name,
            tick_id=tick,
            first_tick=queue.first_tick,
            last_tick=queue.last_tick,
        )
    logger.warning("%s: starting at tick %d, as failOnDataLoss is false", problem, queue.first_tick)
    return queue.first_tick
