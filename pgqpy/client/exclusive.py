"""One at a time over a connection that tasks or threads share: a call, or a transaction of ours.

psycopg locks a connection for one statement. Without this lock, a statement of another task or
thread could get into a transaction that insert_events has opened, and be rolled back with it though
its call has returned. The lock belongs to the connection, because an application may make several
clients of it.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from psycopg import AsyncConnection, Connection

    Lock = AbstractContextManager[Any]


class AsyncLock:
    """A lock for tasks; the one that holds it may enter again."""

    def __init__(self) -> None:
        """Make a lock that is free."""
        self._lock = asyncio.Lock()
        self._owner: asyncio.Task[Any] | None = None
        self._depth = 0

    async def __aenter__(self) -> None:
        """Wait until no other task holds it."""
        task = asyncio.current_task()
        if self._owner is not task or task is None:
            await self._lock.acquire()
            self._owner = task
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
    """Return the lock of a connection, for threads; the one that holds it may enter again."""
    return _locks.setdefault(connection, threading.RLock())


def exclusive_async(connection: AsyncConnection[Any]) -> AsyncLock:
    """Return the lock of a connection, for tasks."""
    return _async_locks.setdefault(connection, AsyncLock())
