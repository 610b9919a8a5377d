"""Blocks of client.transaction(): a call made in one is sent before its end, or not at all.

A call may wait for other calls of its connection, and the block may be rolled back meanwhile: one
of several tasks has failed, and gather() does not wait for the others. Sent later, the call would
be a transaction of its own, or part of an outer one.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from psycopg.errors import InFailedSqlTransaction

if TYPE_CHECKING:
    from collections.abc import Iterator

ENDED = (
    "the transaction() block in which this call was made has ended: nothing was sent. Wait for its "
    "tasks and threads inside the block"
)


class Block:
    """One block, of the connection with this lock."""

    __slots__ = ("caller", "ended", "lock")

    def __init__(self, lock: object, caller: object) -> None:
        """Begin it. `caller` is the thread or task that opens it."""
        self.lock = lock
        self.caller = caller
        self.ended = False


_open: ContextVar[tuple[Block, ...]] = ContextVar("pgqpy_blocks", default=())


@contextmanager
def opened(lock: object, caller: object) -> Iterator[None]:
    """Open a block for this context, and for what inherits it: tasks, asyncio.to_thread."""
    outer, mine = _open.get(), Block(lock, caller)
    _open.set((*outer, mine))
    try:
        yield
    finally:
        mine.ended = True
        _open.set(outer)  # not by its token: a framework may leave the block in another context


@contextmanager
def outside() -> Iterator[None]:
    """Be in no block: for a task that sends calls of others."""
    outer = _open.get()
    _open.set(())
    try:
        yield
    finally:
        _open.set(outer)


def still_open() -> tuple[Block, ...]:
    """Return the open blocks that a call is made in."""
    return tuple(block for block in _open.get() if not block.ended)


def refuse_after_end(lock: object, caller: object) -> None:
    """Raise InFailedSqlTransaction if a block of this context and lock has ended.

    The caller that opened a block may go on after its end, wherever that was.
    """
    for block in _open.get():
        if block.ended and block.lock is lock and block.caller != caller:
            raise InFailedSqlTransaction(ENDED)
