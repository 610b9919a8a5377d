"""One running process a consumer: a session advisory lock, and who holds it."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from pgqpy.consumers.handling import StopRequested
from pgqpy.errors import ConsumerNotFound, ConsumerRunning

if TYPE_CHECKING:
    from datetime import datetime

    from pgqpy.consumers._async_session import AsyncSession
    from pgqpy.consumers.waiting import AsyncWakeup

logger = logging.getLogger("pgqpy.consumers")

LOCK_CLASS = 7366514
GRACE = 2.0  # seconds; the server needs a moment to see that a killed process is gone
POLL_INTERVAL = 0.05  # seconds

SUBSCRIPTION = """
    select s.sub_id
      from pgq.subscription s
      join pgq.queue q on q.queue_id = s.sub_queue
      join pgq.consumer c on c.co_id = s.sub_consumer
     where q.queue_name = %s and c.co_name = %s
"""
OWN = "select pid, backend_start from pg_stat_activity where pid = pg_backend_pid()"
TAKE = "select pg_try_advisory_lock(%s, %s)"
HOLDER = """
    select a.pid, a.backend_start, a.application_name, a.client_addr::text
      from pg_locks l
      join pg_stat_activity a using (pid)
     where l.locktype = 'advisory' and l.granted and l.objsubid = 2
       and l.database = (select oid from pg_database where datname = current_database())
       and l.classid = %s::int8::oid and l.objid = %s::int8::oid
"""
END = "select pg_terminate_backend(pid) from pg_stat_activity where pid = %s and backend_start = %s"


class Backend(NamedTuple):
    """A server process. Process ids are used again, so its start belongs to its identity."""

    pid: int
    start: datetime | None


class Holder(NamedTuple):
    """The session that holds the lock; what only its owner may see of it is None."""

    pid: int
    start: datetime | None
    application: str | None
    address: str | None


class AsyncRunningLock:
    """The lock of one consumer, across the sessions that it goes through."""

    def __init__(self, queue: str, consumer: str) -> None:
        self.queue = queue
        self.consumer = consumer
        self._mine: Backend | None = None  # the last backend that held it for us

    async def take(self, session: AsyncSession, stop: AsyncWakeup) -> None:
        """Take the lock on this session; ConsumerRunning if another live process has it.

        A backend of our own that the server has not yet seen dying is ended and waited for.
        """
        subscription = await self._subscription(session)
        deadline = time.monotonic() + GRACE
        while not await _one(session, TAKE, LOCK_CLASS, subscription):
            holder = await self._holder(session, subscription)
            mine = holder is None or await self._end_mine(session, holder)
            if holder is not None and not mine and time.monotonic() > deadline:
                raise self._running(holder)
            await stop.wait(POLL_INTERVAL)
            if stop.is_set:
                raise StopRequested
        self._mine = Backend(*await _row(session, OWN))

    async def _subscription(self, session: AsyncSession) -> int:
        row = await _row(session, SUBSCRIPTION, self.queue, self.consumer)
        if row is None:
            raise ConsumerNotFound(queue=self.queue, consumer=self.consumer)
        return int(row[0])

    async def _holder(self, session: AsyncSession, subscription: int) -> Holder | None:
        row = await _row(session, HOLDER, LOCK_CLASS, subscription)
        return None if row is None else Holder(*row)

    async def _end_mine(self, session: AsyncSession, holder: Holder) -> bool:
        if (holder.pid, holder.start) != self._mine:
            return False
        logger.info("waiting for our lost session, server process %d, to end", holder.pid)
        await _row(session, END, holder.pid, holder.start)
        return True

    def _running(self, holder: Holder) -> ConsumerRunning:
        where = holder.address or "the server's own machine, or unknown"
        message = (
            f"consumer {self.consumer!r} of queue {self.queue!r} runs already: "
            f"{holder.application or 'unknown application'}, server process {holder.pid}, "
            f"from {where}, connected since {holder.start or 'unknown'}: "
            "stop it first, or give this one a name of its own"
        )
        return ConsumerRunning(
            message,
            queue=self.queue,
            consumer=self.consumer,
            pid=holder.pid,
            application=holder.application,
            address=holder.address,
            since=holder.start,
        )


async def _row(session: AsyncSession, query: str, *params: Any) -> Any:
    cursor = await session.connection.execute(query, params)
    return await cursor.fetchone()


async def _one(session: AsyncSession, query: str, *params: Any) -> Any:
    return (await _row(session, query, *params))[0]
