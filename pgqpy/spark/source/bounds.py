"""The ticks that the options for start and end mean."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pgqpy import tick_ranges
from pgqpy.errors import InvalidArgument, NotFound, RangeExpired

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pgqpy.client import Client
    from pgqpy.spark.options import Bound
    from pgqpy.tick_ranges import Queue


logger = logging.getLogger("pgqpy.spark")


def check_names(queues: Iterable[Queue], *bounds: Bound | None) -> None:
    """Raise InvalidArgument if a bound names another queue."""
    names = [queue.name for queue in queues]
    for bound in filter(None, bounds):
        other = next((name for name in bound.ticks or () if name not in names), None)
        if other is not None:
            raise InvalidArgument(
                f"{bound.option}: {other!r} is none of the queues that are read: "
                f'name ticks of these, like {{"{names[0]}": 21}}',
                parameter=bound.option,
            )


def resolve_bound(client: Client, queue: Queue, bound: Bound, *, fail_on_data_loss: bool) -> int:
    """Return the tick for a bound.

    Raises:
        NotFound: the tick is in the future, or compaction removed it.
        RangeExpired: rotation removed events after it. Without `fail_on_data_loss`, log a warning
            and return the earliest tick instead.
        InvalidArgument: the time is in the future.
    """
    is_end = bound.option.startswith("ending")
    if bound.kind == "latest" or (is_end and not bound.covers(queue.name)):
        return queue.last_tick
    if bound.kind == "earliest" or not bound.covers(queue.name):
        return queue.first_tick
    wanted = None if bound.ticks is None else bound.ticks[queue.name]
    if wanted is None:
        tick = _tick_at_time(client, queue, bound)
    else:
        tick = _existing_tick(client, queue, bound.option, wanted)
    if tick is not None:
        return tick
    what = f"tick {wanted}" if bound.time is None else bound.time.isoformat()
    problem = (
        f"{bound.option}: {what} is older than the events that rotation kept in queue "
        f"{queue.name!r}, ticks {queue.first_tick} to {queue.last_tick}"
    )
    if fail_on_data_loss:
        remedy = "name a later end" if is_end else 'use startingOffsets "earliest" in its place'
        raise RangeExpired(
            f"{problem}: {remedy}, or set failOnDataLoss to false",
            queue=queue.name,
            tick_id=wanted,
            first_tick=queue.first_tick,
            last_tick=queue.last_tick,
        )
    logger.warning("%s: starting at tick %d, as failOnDataLoss is false", problem, queue.first_tick)
    return queue.first_tick


def _existing_tick(client: Client, queue: Queue, option: str, tick: int) -> int | None:
    """Return the tick that an option names; None if rotation removed events after it."""
    if tick > queue.last_tick:
        raise no_tick(
            queue,
            tick,
            f"{option}: tick {tick} is in the future, the last tick of queue {queue.name!r} "
            f"is {queue.last_tick}: name one from {queue.first_tick} to {queue.last_tick}",
        )
    if tick < queue.low_tick:
        return None
    around = tick_ranges.adjacent_ticks(client, queue, tick)
    if tick not in around:
        near = " or ".join(str(each) for each in around if each is not None)
        raise no_tick(
            queue,
            tick,
            f"{option}: queue {queue.name!r} has no tick {tick}, because compaction keeps "
            f"one tick per second: name {near}",
        )
    return tick


def no_tick(queue: Queue, tick: int, text: str) -> NotFound:
    """Return the error for a tick that is not there."""
    return NotFound(text, queue=queue.name, tick_id=tick, sqlstate="PQ005")


def _tick_at_time(client: Client, queue: Queue, bound: Bound) -> int | None:
    """Return the last tick up to the time of a bound; None if rotation removed events after it."""
    time = bound.time
    assert time is not None  # noqa: S101  # a bound of this kind has a time
    now = client.connection.execute("select %s > now()", [time]).fetchone()
    if now is not None and now[0]:
        raise InvalidArgument(
            f"{bound.option}: {time.isoformat()} is in the future: use a time that has passed",
            parameter=bound.option,
        )
    tick = tick_ranges.tick_at(client, queue, time)
    if tick is None and queue.low_tick == 0:  # nothing was ever rotated away
        return queue.first_tick
    return tick
