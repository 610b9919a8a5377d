"""The lock of a connection that tasks or threads share: one call of pgqpy at a time.

psycopg locks a connection for one statement. Without this lock, a statement of another task or
thread could get into a transaction that insert_events has opened, and be rolled back with it though
its call has returned. The lock belongs to the connection, because an application may make several
clients of it. `client.transaction()` takes it for its begin and its end only: nobody can tell whose
block that is, since a framework may enter it in one thread and call the client in another.

COPY holds the connection while it asks an iterable for the next event. A call by that iterable
would wait for its own COPY: the lock refuses it.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pgqpy.client import blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from psycopg import AsyncConnection, Connection

BUSY = (
    "insert_events sends events over this connection, and their iterable calls a client over it: "
    "read the events into a list first, use another connection, or set returning_ids=True"
)


class ConnectionBusy(RuntimeError):
    """The iterable of a COPY calls a client over the connection of the COPY."""


class _Callers:
    """The part of a lock that knows callers: who feeds a COPY, who is in which block."""

    def __init__(self, caller: Callable[[], object]) -> None:
        """Know of no COPY. `caller` returns the thread or task that calls it."""
        self._caller = caller
        self._feeder: object = None

    @contextmanager
    def copying(self) -> Iterator[None]:
        """Refuse calls of this thread or task in the block."""
        self._feeder = self._caller()
        try:
            yield
        finally:
            self._feeder = None

    def refuse_in_copy(self) -> None:
        """Raise ConnectionBusy if the caller is the one that feeds a COPY."""
        if self._feeder is not None and self._feeder == self._caller():
            raise ConnectionBusy(BUSY)

    def block(self) -> AbstractContextManager[None]:
        """Be in a block of client.transaction()."""
        return blocks.opened(self, self._caller())

    def refuse_after_end(self) -> None:
        """Raise InFailedSqlTransaction if the block that the caller was in has ended."""
        blocks.refuse_after_end(self, self._caller())


class ConnectionLock(_Callers):
    """A lock for threads; the one that holds it may enter again."""

    def __init__(self) -> None:
        """Make a lock that is free."""
        super().__init__(threading.get_ident)
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        """Wait until no other thread holds it."""
        self.refuse_in_copy()
        self._lock.acquire()
        try:
            self.refuse_after_end()
        except BaseException:
            self._lock.release()
            raise

    @property
    def for_one(self) -> ConnectionLock:
        """The lock, for a call of one statement."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let others in, at the end of the outermost block."""
        self._lock.release()


class AsyncConnectionLock(_Callers):
    """A lock for tasks; the one that holds it may enter again."""

    def __init__(self) -> None:
        """Make a lock that is free."""
        super().__init__(asyncio.current_task)
        self._lock = asyncio.Lock()
        self._owner: asyncio.Task[Any] | None = None
        self._depth = 0

    async def __aenter__(self) -> None:
        """Wait until no other task holds it."""
        self.refuse_in_copy()
        task = asyncio.current_task()
        if self._owner is not task or task is None:
            await self._lock.acquire()
            self._owner = task
        self._depth += 1
        try:
            self.refuse_after_end()
        except BaseException:
            await self.__aexit__()
            raise

    @property
    def for_one(self) -> _Turn:
        """The wait for the lock, for a call of one statement: psycopg's own lock follows.

        Psycopg's lock is fair. So such calls are sent in the order in which they were made, before
        a ROLLBACK by the application that came later.
        """
        return _Turn(self)

    async def __aexit__(self, *_: object) -> None:
        """Let others in, at the end of the outermost block."""
        self._depth -= 1
        if not self._depth:
            self._owner = None
            self._lock.release()


class _Turn:
    """A wait until no other task holds a lock."""

    __slots__ = ("_lock",)

    def __init__(self, lock: AsyncConnectionLock) -> None:
        self._lock = lock

    async def __aenter__(self) -> None:
        async with self._lock:
            pass

    async def __aexit__(self, *_: object) -> None:
        """Nothing is held."""


# By psycopg's own lock: consumers' handlers get another connection object for each call.
_locks: WeakKeyDictionary[object, ConnectionLock] = WeakKeyDictionary()
_async_locks: WeakKeyDictionary[object, AsyncConnectionLock] = WeakKeyDictionary()


def exclusive(connection: Connection[Any]) -> ConnectionLock:
    """Return the lock of a connection, for threads."""
    return _locks.setdefault(connection.lock, ConnectionLock())


def exclusive_async(connection: AsyncConnection[Any]) -> AsyncConnectionLock:
    """Return the lock of a connection, for tasks."""
    return _async_locks.setdefault(connection.lock, AsyncConnectionLock())
