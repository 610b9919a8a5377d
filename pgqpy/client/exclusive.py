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
import math
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from psycopg.errors import InFailedSqlTransaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from psycopg import AsyncConnection, Connection

ENDED = (
    "the transaction() block in which this call was made has ended: nothing was sent. Wait for its "
    "tasks and threads inside of the block"
)
BUSY = (
    "insert_events sends events over this connection, and their iterable calls a client over it: "
    "read the events into a list first, use another connection, or set returning_ids=True"
)


class ConnectionBusy(RuntimeError):
    """The iterable of a COPY calls a client over the connection of the COPY."""


class _Blocks:
    """What a lock knows of its connection: a running COPY, and open transaction() blocks.

    Attributes:
        caller: returns the thread or task that calls it.
        blocks: the open blocks of client.transaction().
        inner: how many of psycopg's open transaction() blocks belong to a call of pgqpy.
        ended: how many blocks have ended.
    """

    def __init__(self, caller: Callable[[], object]) -> None:
        """Begin without a COPY or a block."""
        self.caller = caller
        self._feeder: object = None
        self.blocks: list[Block] = []
        self.inner = 0
        self.ended = 0

    @contextmanager
    def copying(self) -> Iterator[None]:
        """Refuse calls of this thread or task in the block."""
        self._feeder = self.caller()
        try:
            yield
        finally:
            self._feeder = None

    def refuse_in_copy(self) -> None:
        """Raise ConnectionBusy if the caller is the one that feeds a COPY."""
        if self._feeder is not None and self._feeder == self.caller():
            raise ConnectionBusy(BUSY)

    @contextmanager
    def block(self) -> Iterator[Block]:
        """Open a block of client.transaction(). Tasks inside inherit it with their context."""
        mine = Block(self)
        self.blocks.append(mine)
        _blocks.set((*_blocks.get(), mine))
        try:
            yield mine
        except BaseException:
            mine.rolled_back = True
            raise
        finally:
            self.blocks.remove(mine)
            self.ended += 1
            mine.end = self.ended
            mine.is_known = self.caller() == mine.opener and mine in _blocks.get()
            # Not by a token: a framework may leave the block in another context.
            _blocks.set(tuple(each for each in _blocks.get() if each is not mine))

    def refuse_left(self, ended_before: int) -> None:
        """Raise InFailedSqlTransaction if the calling task outlived a block that rolled back.

        `ended_before`: how many blocks of the connection had ended when the client was made. A
        client made after the end of the block is not refused: a pool gives others the connection.
        """
        for each in _blocks.get():
            rolled_back = each.rolled_back and each.is_known and each.end > ended_before
            if each.lock is self and rolled_back:
                raise InFailedSqlTransaction(ENDED)


class Block:
    """A block of client.transaction(), of the connection with this lock."""

    def __init__(self, lock: _Blocks) -> None:
        """Begin it, in this thread or task."""
        self.lock = lock
        # How many blocks of this connection had ended at its end, itself included; inf: it is open.
        self.end = math.inf
        self.opener = lock.caller()
        self.rolled_back = False
        # Only tasks that were started inside have it in their context after its end. Not where
        # another task ends it, as the event loop does with a generator.
        self.is_known = True


_blocks: ContextVar[tuple[Block, ...]] = ContextVar("pgqpy_blocks", default=())


class ConnectionLock(_Blocks):
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
    def turn(self) -> ConnectionLock:
        """The lock itself: psycopg's own lock is not fair between threads."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let others in, at the end of the outermost block."""
        self._lock.release()


class AsyncConnectionLock(_Blocks):
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
    def turn(self) -> _Turn:
        """The wait until no other task holds the lock, without holding it.

        A call of one statement then queues for psycopg's own lock, which is fair: a ROLLBACK that
        the application sends later stays behind it.
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


# The key is psycopg's lock: all connection objects of one session share it.
_locks: WeakKeyDictionary[object, ConnectionLock] = WeakKeyDictionary()
_async_locks: WeakKeyDictionary[object, AsyncConnectionLock] = WeakKeyDictionary()


def exclusive(connection: Connection[Any]) -> ConnectionLock:
    """Return the lock of a connection, for threads."""
    return _locks.setdefault(connection.lock, ConnectionLock())


def exclusive_async(connection: AsyncConnection[Any]) -> AsyncConnectionLock:
    """Return the lock of a connection, for tasks."""
    return _async_locks.setdefault(connection.lock, AsyncConnectionLock())
