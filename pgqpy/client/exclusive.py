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
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from psycopg import AsyncConnection, Connection

BUSY = (
    "insert_events sends events over this connection, and their iterable calls a client over it: "
    "read the events into a list first, use another connection, or set returning_ids=True"
)


class ConnectionBusy(RuntimeError):
    """The iterable of a COPY calls a client over the connection of the COPY."""


class _State:
    """The part of a lock that knows of a COPY and of blocks of transactions.

    Attributes:
        blocks: the open ones of client.transaction().
        inner: how many transaction() blocks of psycopg are pgqpy's own, inside of one call.
    """

    def __init__(self, caller: Callable[[], object]) -> None:
        """Know of none. `caller` returns the thread or task that calls it."""
        self._caller = caller
        self._feeder: object = None
        self.blocks: list[Block] = []
        self.inner = 0

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

    @contextmanager
    def block(self) -> Iterator[Block]:
        """Be in a block of client.transaction(), as what inherits this context is."""
        mine = Block(self, self._caller())
        self.blocks.append(mine)
        _blocks.set((*_blocks.get(), mine))
        try:
            yield mine
        except BaseException:
            mine.rolled_back()
            raise
        finally:
            self.blocks.remove(mine)
            # Not by a token: a framework may leave the block in another context.
            _blocks.set(tuple(each for each in _blocks.get() if each is not mine))

    def left_by(self) -> bool:
        """Whether the caller is left of a block that was rolled back."""
        found = _blocks.get()
        return bool(found) and any(b.lock is self and self._caller() in b.left for b in found)


class Block:
    """A block of client.transaction(), of the connection with this lock."""

    def __init__(self, lock: _State, opener: object) -> None:
        """Begin it, in this thread or task."""
        self.lock = lock
        self.left: WeakSet[Any] = WeakSet()  # tasks that were alive when it was rolled back
        self._opener = opener

    def rolled_back(self) -> None:
        """Note the tasks that may be left. Those that begin later have nothing to do with it."""
        with suppress(RuntimeError):  # no event loop: nobody knows the threads
            self.left = WeakSet(asyncio.all_tasks())
            self.left.discard(self._opener)
            self.left.discard(asyncio.current_task())


_blocks: ContextVar[tuple[Block, ...]] = ContextVar("pgqpy_blocks", default=())


class ConnectionLock(_State):
    """A lock for threads; the one that holds it may enter again."""

    def __init__(self) -> None:
        """Make a lock that is free."""
        super().__init__(threading.get_ident)
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        """Wait until no other thread holds it."""
        self.refuse_in_copy()
        self._lock.acquire()

    @property
    def for_one(self) -> ConnectionLock:
        """The lock, for a call of one statement."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let others in, at the end of the outermost block."""
        self._lock.release()


class AsyncConnectionLock(_State):
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
