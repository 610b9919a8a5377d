"""What a process of a consumer with lanes holds: advisory locks, or leases."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import psycopg

from pgqpy.calls import lanes
from pgqpy.consumers._async.lock import REGISTERED_ANEW, AsyncRunningLock
from pgqpy.consumers._async.worker_lock import (
    TAKE_SHARED,
    AsyncLeasedWorker,
    AsyncWorkerLock,
)

if TYPE_CHECKING:
    from datetime import timedelta

    from pgqpy.calls import Call, Row
    from pgqpy.calls.share import TakeLimits
    from pgqpy.consumers._async.careful import AsyncCareful
    from pgqpy.consumers._async.session import AsyncSession
    from pgqpy.consumers.settings import BaseConsumer
    from pgqpy.consumers.waiting import AsyncWakeup
    from pgqpy.records import Batch, Part

logger = logging.getLogger("pgqpy.consumers")

SPARE = 10.0  # seconds without a lane, after which a process tells that others have them


class AsyncLaneLock(AsyncWorkerLock):
    """The lock of a run, which proves that the holder of a lane's batch lives.

    The lock of the consumer itself is held too, shared by all processes: it keeps out a process
    whose class has no lanes.
    """

    def __init__(self, queue: str, name: str) -> None:
        super().__init__(queue, name)
        self._idle_since: float | None = None
        self._told = False  # that other processes have the lanes

    async def take(self, session: AsyncSession, stop: AsyncWakeup) -> None:
        """Take both locks; ConsumerRunning if a process without lanes runs the consumer."""
        self.consumer = self.name
        subscription = await self._subscription(session)
        await self._wait_for(session, stop, TAKE_SHARED, subscription)
        await self._taken(session, subscription)

    def check_calls(self) -> tuple[Call[None], ...]:
        """Return none: each take_lane tells the subscription."""
        return ()

    def take_part(self, careful: AsyncCareful, limits: TakeLimits) -> Call[Batch | None]:
        """Return the call that takes a batch of a lane, and tells `careful` what came."""
        place, key = (self.queue, self.name), str(self.run[1])
        call = lanes.take_lane(*place, holder=careful.holder, key=key, **limits)
        return self._polling(careful, call)

    def take_parked(
        self, careful: AsyncCareful, lease: timedelta | float | None, limit: int
    ) -> Call[Batch | None]:
        """Return the call that takes parked events of a lane, and tells `careful` what came."""
        call = lanes.take_parked_lane(
            self.queue,
            self.name,
            limit,
            holder=careful.holder,
            lease=lease,
            key=str(self.run[1]),
        )
        return self._polling(careful, call)

    def _polling(self, careful: AsyncCareful, call: Call[lanes.Look]) -> Call[Batch | None]:
        def part_of(rows: list[Row]) -> Part | None:
            found = call.decode(rows)
            if self._subscribed not in (None, found.subscription) and found.subscription:
                raise psycopg.OperationalError(REGISTERED_ANEW)
            self._tell_spare(busy=found.busy)
            # An old lane, while the key is changed: handlers side by side keep another order.
            self.one_by_one = found.key not in (None, self.run[1])
            return found.part

        return self._telling(careful, call, part_of)

    def _tell_spare(self, *, busy: int) -> None:
        """Tell once that this process has nothing to do while others hold lanes."""
        now = time.monotonic()
        if not busy:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = now
        elif not self._told and now - self._idle_since > SPARE:
            text = "consumer %s of queue %s: %d lane(s) are with other processes, this one waits"
            logger.info(text, self.name, self.queue, busy)
            self._told = True


class AsyncLeasedLanes(AsyncLaneLock):
    """A process whose batches are leased: no session holds anything for it."""

    async def take(self, session: AsyncSession, stop: AsyncWakeup) -> None:
        """Take nothing."""


def lock_for(consumer: BaseConsumer, last: AsyncRunningLock | None = None) -> AsyncRunningLock:
    """Return the lock for a run: `last`, if its kind, its queue and its name are still right.

    `last` knows the server process that held it last.
    """
    kind, place = _kind_of_lock(consumer), (consumer.queue, consumer.name)
    if last is not None and (type(last), (last.queue, last.name)) == (kind, place):
        return last
    return kind(*place)


def _kind_of_lock(consumer: BaseConsumer) -> type[AsyncRunningLock]:
    if consumer.lanes is not None:
        return AsyncLaneLock if consumer.lease is None else AsyncLeasedLanes
    if consumer.lease is not None:
        return AsyncLeasedWorker
    return AsyncWorkerLock if consumer.shared else AsyncRunningLock
