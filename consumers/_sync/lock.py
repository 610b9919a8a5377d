"""[Generated from _async/lock.py by tools/unasync.py: edit that file, not this one.] The advisory lock that allows one running process for each consumer."""

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

    from pgqpy.calls import Row
    from pgqpy.consumers._sync.session import Session
    from pgqpy.consumers.waiting import Wakeup

logger = logging.getLogger("pgqpy.consumers")

STANDBY_AFTER = 2.0  # seconds; the server needs a moment to see that a killed process is gone
REGISTERED_ANEW = "the consumer was unregistered and registered anew"
TAKE_INTERVAL = 0.05  # seconds between attempts, meanwhile
STANDBY_INTERVAL = 0.5  # seconds
SHARE = "give this one a name of its own, or let both have shared = True"

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


class RunningLock:
    """The lock of one consumer. Each new session of the process takes it again."""

    def __init__(self, queue: str, name: str, or_else: str = SHARE) -> None:
        self.queue = queue
        self.name = name
        self._or_else = or_else  # advice, if the process that has the lock is to go on
        # The last server process that held it for us; ids are reused, so with its start time.
        self._mine: tuple[int, datetime] | None = None
        self._subscribed: int | None = None  # the subscription that it was taken for

    def take(self, session: Session, stop: Wakeup, *, wait: bool = False) -> None:
        """Take the lock on this session. If another live process has it: ConsumerRunning, or wait.

        A backend of our own that the server has not yet seen dying is ended and waited for. While
        it waits, no statement is open on the server: it asks again and again. StopRequested if
        `stop` comes meanwhile.
        """
        deadline, told = time.monotonic() + STANDBY_AFTER, False
        while True:
            self._subscribed = self._subscription(session)  # it may be registered anew
            taken = _row(session, TAKE, locks.CONSUMER, self._subscribed)
            if taken[0]:
                break
            holder = self._holder(session)
            mine = holder is not None and self._end_mine(session, holder)
            standby = not mine and time.monotonic() > deadline
            if standby and not wait:
                raise self._running(holder)
            if standby and not told:
                told = session.ready = True  # nothing is wrong: another process does the work
                text = "consumer %s of queue %s waits as a standby: %s"
                logger.info(text, self.name, self.queue, self._reason(holder))
            stop.wait(STANDBY_INTERVAL if standby else TAKE_INTERVAL)
            if stop.is_set:
                raise StopRequested
        self._mine = _row(session, OWN)

    def _holder(self, session: Session) -> locks.LockOwner | None:
        row = _row(session, locks.BLOCKER, locks.CONSUMER, self._subscribed, False)  # noqa: FBT003  # SQL
        return None if row is None else locks.LockOwner(*row)

    def check(self, session: Session) -> None:
        """Raise OperationalError if the consumer was registered anew since the lock was taken.

        Another process may hold the lock of the new registration. A new session takes it, or finds
        out that it is taken.
        """
        for call in self.check_calls():
            session.runner.run(call)

    def check_calls(self) -> tuple[Call[None], ...]:
        """Return what `check` sends, for a poll to send behind the call that opens a batch."""
        call = self._subscription_call()

        def checked(rows: list[Row]) -> None:
            if call.decode(rows) != self._subscribed:
                raise psycopg.OperationalError(REGISTERED_ANEW)

        return (Call(call.function, call.sql, call.params, checked, call.error_data),)

    def _subscription(self, session: Session) -> int:
        return session.runner.run(self._subscription_call())

    def _subscription_call(self) -> Call[int]:
        place = self._place

        def subscription(rows: list[Row]) -> int:
            if not rows:
                raise ConsumerNotFound(**place)
            return int(rows[0][0])

        return Call("subscription", SUBSCRIPTION, (*place.values(),), subscription, place)

    def _end_mine(self, session: Session, holder: locks.LockOwner) -> bool:
        if (holder.pid, holder.start) != self._mine:
            return False
        logger.info("waiting for our lost session, server process %d, to end", holder.pid)
        _row(session, END, holder.pid, holder.start)
        return True

    def _running(self, holder: locks.LockOwner | None) -> ConsumerRunning:
        about = f"consumer {self.name!r} of queue {self.queue!r}"
        reason = self._reason(holder)
        if holder is None:
            return ConsumerRunning(f"{about} cannot run: {reason}", **self._place)
        if holder.granted and holder.may_be_consumer:
            message = f"{about} runs already: {reason}: stop it first, {self._or_else}"
        else:
            message = f"{about} cannot run: {reason}: {holder.how_to_end}"
        data: dict[str, Any] = {
            "pid": holder.pid,
            "role": holder.role,
            "application": holder.application,
        }
        data |= {"address": holder.address, "since": holder.start}
        return ConsumerRunning(message, **self._place, **data)

    def _reason(self, holder: locks.LockOwner | None) -> str:
        lock = f"its advisory lock ({locks.CONSUMER}, {self._subscribed})"
        if holder is None:
            return f"a session that this role cannot see holds {lock}"
        if not holder.granted:
            return holder.blocks(lock)
        stranger = "" if holder.may_be_consumer else "is no consumer and "
        return f"{holder}, {stranger}holds {lock}"

    @property
    def _place(self) -> dict[str, Any]:
        return {"queue": self.queue, "consumer": self.name}


def _row(session: Session, query: str, *params: Any) -> Any:
    cursor = session.connection.cursor()
    cursor.execute(query, params)
    return cursor.fetchone()
