"""One at a time over a connection that tasks or threads share: a call, or a transaction of ours.

psycopg locks a connection for one statement. Without this lock, a statement of another task or
thread could get into a transaction that insert_events has opened, and be rolled back with it though
its call has returned. The lock belongs to the connection, because an application may make several
clients of it.

COPY holds the connection while it asks an iterable for the next event. A call by that iterable
would wait for its own COPY: the lock refuses it.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import AsyncConnection, Connection

BUSY = (
    "insert_events reads these events, and sends them over the same connection: "
    "read them into a list before, use another connection, or set returning_ids=True"
)


class ConnectionBusy(RuntimeError):
    """An iterable of events calls a client over the connection that sends its events."""


class _Loading:
    """The part of a lock that knows of a COPY."""

    def __init__(self) -> None:
        """Know of none."""
        self._is_loading = False

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Refuse to let the one who holds the lock enter again, in the block."""
        self._is_loading = True
        try:
            yield
        finally:
            self._is_loading = False

    def refuse_in_loading(self) -> None:
        """Raise ConnectionBusy inside the block of `loading`."""
        if self._is_loading:
            raise ConnectionBusy(BUSY)


class Lock(_Loading):
    """A lock for threads; the one that holds it may enter again."""

    def __init__(self) -> None:
        """Make a lock that is free."""
        super().__init__()
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        """Wait until no other thread holds it."""
        self._lock.acquire()
        try:
            self.refuse_in_loading()
        except ConnectionBusy:
            self._lock.release()
            raise

    def __exit__(self, *_: object) -> None:
        """Let others in, at the end of the outermost block."""
        self._lock.release()


class AsyncLock(_Loading):
    """A lock for tasks; the one that holds it may enter again."""

    def __init__(self) -> None:
        """Make a lock that is free."""
        super().__init__()
        self._lock = asyncio.Lock()
        self._owner: asyncio.Task[Any] | None = None
        self._depth = 0

    async def __aenter__(self) -> None:
        """Wait until no other task holds it."""
        task = asyncio.current_task()
        if self._owner is not task or task is None:
            await self._lock.acquire()
            self._owner = task
        self.refuse_in_loading()
        self._depth += 1

    async def __aexit__(self, *_: object) -> None:
        """Let others in, at the end of the outermost block."""
        self._depth -= 1
        if not self._depth:
            self._owner = None
            self._lock.release()


_locks: WeakKeyDictionary[Connection[Any], Lock] = WeakKeyDictionary()
_async_locks: WeakKeyDictionary[AsyncConnection[Any], AsyncLock] = WeakKeyDictionary()


def exclusive(connection: Connection[Any]) -> Lock:
    """Return the lock of a connection, for threads."""
    return _locks.setdefault(connection, Lock())


def exclusive_async(connection: AsyncConnection[Any]) -> AsyncLock:
    """Return the lock of a connection, for tasks."""
    return _async_locks.setdefault(connection, AsyncLock())
