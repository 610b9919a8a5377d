"""The advisory lock that allows one running process for each consumer."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

import psycopg

from pgqpy import locks
from pgqpy.calls import Call
from pgqpy.consumers.handlers import StopRequested
from pgqpy.errors import ConsumerNotFound, ConsumerRunning

if TYPE_CHECKING:
    from datetime import datetime

    from typing_extensions import LiteralString

    from pgqpy.calls import Row
    from pgqpy.consumers._async.session import AsyncSession
    from pgqpy.consumers.waiting import AsyncWakeup

logger = logging.getLogger("pgqpy.consumers")

GRACE = 2.0  # seconds; the server needs a moment to see that a killed process is gone
REGISTERED_ANEW = "the consumer was unregistered and registered anew"
POLL_INTERVAL = 0.05  # seconds

# Operators are qualified: the session of transactional handlers has the role's own search_path.
SUBSCRIPTION = """
    select s.sub_id
      from pgq.subscription s
      join pgq.queue q on q.queue_id operator(pg_catalog.=) s.sub_queue
      join pgq.consumer c on c.co_id operator(pg_catalog.=) s.sub_consumer
     where q.queue_name operator(pg_catalog.=) %s::text
       and c.co_name operator(pg_catalog.=) %s::text
"""
OWN = "select pid, backend_start from pg_stat_activity where pid = pg_backend_pid()"
TAKE = "select pg_try_advisory_lock(%s, %s)"
END = "select pg_terminate_backend(pid) from pg_stat_activity where pid = %s and backend_start = %s"


class AsyncRunningLock:
    """The lock of one consumer. Each new session of the process takes it again."""

    one_by_one = False  # the events of a batch are handled in their order, not side by side

    def __init__(self, queue: str, name: str) -> None:
        self.queue = queue
        self.name = name
        self.consumer = name  # a worker: the subconsumer
        self.run: tuple[str, object] = ("", None)  # its token, and the key of its events
        # The last server process that held it for us; ids are reused, so with its start time.
        self._mine: tuple[int, datetime] | None = None
        self._subscribed: int | None = None  # the subscription that it was taken for

    async def take(self, session: AsyncSession, stop: AsyncWakeup) -> None:
        """Take the lock on this session; ConsumerRunning if another live process has it.

        A backend of our own that the server has not yet seen dying is ended and waited for.
        """
        subscription = await self._subscription(session)
        await self._wait_for(session, stop, TAKE, subscription)
        await self._taken(session, subscription)

    async def _wait_for(
        self, session: AsyncSession, stop: AsyncWakeup, take: LiteralString, subscription: int
    ) -> None:
        deadline = time.monotonic() + GRACE
        while not await self._try(session, take, subscription):
            holder = await self._holder(session, take, subscription)
            mine = holder is not None and await self._end_mine(session, holder)
            if not mine and time.monotonic() > deadline:
                raise self._running(holder, subscription)
            await stop.wait(POLL_INTERVAL)
            if stop.is_set:
                raise StopRequested

    async def _try(self, session: AsyncSession, take: LiteralString, subscription: int) -> bool:
        return bool((await _row(session, take, locks.CONSUMER, subscription))[0])

    async def _holder(
        self, session: AsyncSession, take: LiteralString, subscription: int
    ) -> locks.Holder | None:
        shared = take != TAKE
        row = await _row(session, locks.BLOCKER, locks.CONSUMER, subscription, shared)
        return None if row is None else locks.Holder(*row)

    async def _taken(self, session: AsyncSession, subscription: int) -> None:
        self._mine = await _row(session, OWN)
        self._subscribed = subscription

    async def check(self, session: AsyncSession) -> None:
        """Raise OperationalError if the consumer was registered anew since the lock was taken.

        Another process may hold the lock of the new registration. A new session takes it, or finds
        out that it is taken.
        """
        for call in self.check_calls():
            await session.runner.run(call)

    def check_calls(self) -> tuple[Call[None], ...]:
        """Return what `check` sends, for a poll to send behind the call that opens a batch."""
        call = self._subscription_call()

        def checked(rows: list[Row]) -> None:
            if call.decode(rows) != self._subscribed:
                raise psycopg.OperationalError(REGISTERED_ANEW)

        return (Call(call.function, call.sql, call.params, checked, call.error_data),)

    async def _subscription(self, session: AsyncSession) -> int:
        return await session.runner.run(self._subscription_call())

    def _subscription_call(self) -> Call[int]:
        place = {"queue": self.queue, "consumer": self.consumer}

        def subscription(rows: list[Row]) -> int:
            if not rows:
                raise ConsumerNotFound(**place)
            return int(rows[0][0])

        return Call("subscription", SUBSCRIPTION, (*place.values(),), subscription, place)

    async def _end_mine(self, session: AsyncSession, holder: locks.Holder) -> bool:
        if (holder.pid, holder.start) != self._mine:
            return False
        logger.info("waiting for our lost session, server process %d, to end", holder.pid)
        await _row(session, END, holder.pid, holder.start)
        return True

    def _running(self, holder: locks.Holder | None, subscription: int) -> ConsumerRunning:
        about = f"consumer {self.consumer!r} of queue {self.queue!r}"
        lock = f"advisory lock ({locks.CONSUMER}, {subscription})"
        if holder is None:
            message = f"{about} cannot run: a session that this role cannot see holds its {lock}"
        elif not holder.granted:
            message = f"{about} cannot run: {holder.blocks(f'its {lock}')}: {holder.how_to_end}"
        elif holder.pid is None or holder.may_consume is False:
            message = (
                f"{about} cannot run: {holder}, is no consumer and holds its {lock}: "
                f"{holder.how_to_end}"
            )
        else:
            message = (
                f"{about} runs already: {holder}, holds its {lock}: "
                "stop it first, give this one a name of its own, or let all of them have "
                "shared = True or lanes"
            )
        data: dict[str, Any] = {"queue": self.queue, "consumer": self.consumer}
        if holder is not None:
            data |= {"pid": holder.pid, "role": holder.role, "application": holder.application}
            data |= {"address": holder.address, "since": holder.start}
        return ConsumerRunning(message, **data)


async def _row(session: AsyncSession, query: str, *params: Any) -> Any:
    cursor = session.connection.cursor()
    await cursor.execute(query, params)
    return await cursor.fetchone()
