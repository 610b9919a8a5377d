"""What a worker, one process of a shared consumer, holds: advisory locks, or leases."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from pgqpy import locks
from pgqpy.calls import Call, share
from pgqpy.consumers._async.lock import TAKE, AsyncRunningLock
from pgqpy.consumers.handlers import StopRequested
from pgqpy.errors import ConsumerNotFound, ConsumerRunning

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgqpy.calls import Interval, Row
    from pgqpy.calls.share import TakeLimits
    from pgqpy.consumers._async.careful import AsyncCareful
    from pgqpy.consumers._async.session import AsyncSession
    from pgqpy.consumers.settings import BaseConsumer
    from pgqpy.consumers.waiting import AsyncWakeup
    from pgqpy.records import Batch, Part

MOST_STARTS = 64  # other workers that may start at the same time
TAKE_SHARED = "select pg_try_advisory_lock_shared(%s, %s)"
TAKE_RUN = "select pg_catalog.pg_advisory_lock_shared(%s, pg_catalog.hashtext(%s))"


class AsyncWorkerLock(AsyncRunningLock):
    """The lock of a subconsumer: `1`, `2`, …, the lowest that no other process has.

    So a restarted process takes the number of one that has died, and gets its batch first; restarts
    add no subconsumers. The lock of the consumer itself is held too, shared by all workers: it
    keeps out a process whose class is not shared. The lock of the run shows that its process has
    not died, even if another one took its batch over for want of a heartbeat.
    """

    def __init__(self, queue: str, name: str) -> None:
        super().__init__(queue, name)
        self.worker: str | None = None  # the subconsumer

    async def take(self, session: AsyncSession, stop: AsyncWakeup) -> None:
        """Take the locks; ConsumerRunning if a process runs the consumer that is not shared.

        A new session of the same process takes the same subconsumer, unless another has it now, or
        it was removed.
        """
        self.consumer = self.name
        await self._wait_for(session, stop, TAKE_SHARED, await self._subscription(session))
        if self.worker is not None:
            self.consumer = f"{self.name}.{self.worker}"
            try:
                await super().take(session, stop)
            except (ConsumerRunning, ConsumerNotFound):
                self.worker = None  # it was taken or removed while our session was lost
            else:
                return
        contested = 0  # new subconsumers whose lock is taken: by starting workers, or by strangers
        for number in itertools.count(1):
            if stop.is_set:
                raise StopRequested
            self.consumer = f"{self.name}.{number}"
            register = share.register_subconsumer(self.queue, self.name, str(number))
            contested += await session.runner.run(register)
            subscription = await self._subscription(session)
            if await self._try(session, TAKE, subscription):
                await self._taken(session, subscription)
                self.worker = str(number)  # only now: a session lost before may have no lock
                return
            if contested > MOST_STARTS:
                holder = await self._holder(session, TAKE, subscription)
                raise self._running(holder, subscription)

    async def _taken(self, session: AsyncSession, subscription: int) -> None:
        await super()._taken(session, subscription)
        await session.connection.execute(TAKE_RUN, (locks.RUN, self.run[0]))

    def take_part(self, careful: AsyncCareful, limits: TakeLimits) -> Call[Batch | None]:
        """Return the call that takes a batch for this worker, and tells `careful` what came."""
        place = (self.queue, self.name, self.worker)
        call = share.take_part(*place, holder=careful.holder, **limits)
        return self._telling(careful, call, call.decode)

    def _telling(
        self,
        careful: AsyncCareful,
        call: Call[Any],
        part_of: Callable[[list[Row]], Part | None],
    ) -> Call[Batch | None]:
        """Return the call with the batch as its result, which tells `careful` what came."""

        def decode(rows: list[Row]) -> Batch | None:
            part = part_of(rows)
            careful.took(part)
            return None if part is None else part.batch

        return Call(call.function, call.sql, call.params, decode, call.error_data, pgqpy_only=True)


class AsyncLeasedWorker(AsyncWorkerLock):
    """A worker whose batches are leased: no session holds anything for it.

    So a pooler may share its sessions. take_part gives it a subconsumer with each batch.
    """

    async def take(self, session: AsyncSession, stop: AsyncWakeup) -> None:
        """Take nothing."""

    def check_calls(self) -> tuple[Call[None], ...]:
        """Return none: take_part finds the consumer by its name at each call."""
        return ()

    def _telling(
        self,
        careful: AsyncCareful,
        call: Call[Any],
        part_of: Callable[[list[Row]], Part | None],
    ) -> Call[Batch | None]:
        """As in the base class; the log names the subconsumer from now on."""

        def named(rows: list[Row]) -> Part | None:
            part = part_of(rows)
            self.consumer = self.consumer if part is None else part.batch.consumer
            return part

        return super()._telling(careful, call, named)


def limits_of(
    consumer: BaseConsumer,
    wanted: int | None,
    asked: str | None,
    min_count: int | None,
    min_interval: Interval | None,
) -> TakeLimits:
    """Return what a process of this consumer asks for."""
    return {
        "lease": consumer.lease,
        "dead_interval": consumer.dead_interval,
        "min_count": min_count,
        "min_interval": min_interval,
        "wanted": wanted,
        "asked": asked,
    }
