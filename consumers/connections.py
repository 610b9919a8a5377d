"""Lost connections and collisions: how errors tell them, and how a session is ended for good."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors, pq

from pgqpy.consumers.waiting import start_thread
from pgqpy.errors import ConnectionFailed, WrongTransaction

if TYPE_CHECKING:
    from collections.abc import Iterator


MOST_LOSSES = 3  # at one event
EVENT_NOT_FOUND = "PQ004"
TRANSACTION_ENDED = "2D000"  # PostgreSQL's code for a COMMIT where there must be none


def is_a(error: BaseException, kinds: type | tuple[type, ...]) -> bool:
    """Say whether an exception, of a handler perhaps, is of one of these classes.

    isinstance would ask it for its `__class__`, where an application may have code that fails.
    """
    return issubclass(type(error), kinds)


def is_collision(error: BaseException) -> bool:
    """Say whether the transaction collided with another one and may simply be repeated."""
    return is_a(error, (errors.SerializationFailure, errors.DeadlockDetected))


def is_loss(error: BaseException) -> bool:
    """Say whether a new connection may help.

    psycopg raises OperationalError for a lost connection, a server that shuts down, starts or is
    full, and a cancelled statement. A standby refuses to write with 25006 (after a failover). When
    a session ends behind a pooler, the server and the pooler may each send an error: psycopg then
    raises an InternalError without SQLSTATE.
    """
    if is_a(error, psycopg.InternalError) and getattr(error, "sqlstate", None) is None:
        return True
    if is_a(error, ConnectionFailed) and getattr(error, "sqlstate", None) is not None:
        return False  # it lasts until somebody changes how the consumer connects
    lost = (ConnectionFailed, psycopg.OperationalError, psycopg.InterfaceError)
    return is_a(error, (*lost, errors.ReadOnlySqlTransaction)) and not is_collision(error)


def transaction_ended() -> WrongTransaction:
    """Return the error for a handler that ended the transaction of its batch."""
    what_to_do = "leave commit and rollback to the consumer; raise an exception to undo an event"
    text = f"a handler ended the transaction of its batch: {what_to_do}"
    return WrongTransaction(text, sqlstate=TRANSACTION_ENDED, what_to_do=what_to_do)


def is_transaction_ended(error: BaseException) -> bool:
    """Say whether this is the error of `transaction_ended`."""
    return is_a(error, WrongTransaction) and getattr(error, "sqlstate", "") == TRANSACTION_ENDED


def is_session_lost(error: BaseException) -> bool:
    """Say whether a session that was open has ended.

    The server sends 57P01 (an administrator ended it) and similar codes, or 08...; a loss that
    psycopg itself detects has no SQLSTATE.
    """
    if not isinstance(error, psycopg.OperationalError):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(("57P", "08"))


class LossCounter:
    """Counts how often the connection was lost in, or after, the handler of each event of a batch.

    Once is an outage. An event that loses the connection each time (its handler ends the server
    process, say, or sets a short timeout) would stop the consumer for ever.
    """

    def __init__(self) -> None:
        self._losses: Counter[int] = Counter()  # by the event's id

    def lost_at(self, event_id: int) -> None:
        """Count a loss of the connection; this event was the last one handled."""
        self._losses[event_id] += 1

    @property
    def begun(self) -> bool:
        """Whether the connection was lost since a batch was finished."""
        return bool(self._losses)

    def failure_of(self, event_id: int) -> BaseException | None:
        """Return the error for an event that lost the connection too often, None for others."""
        losses = self._losses.get(event_id, 0)
        if losses < MOST_LOSSES:
            return None
        text = f"the connection was lost in or after its handler {losses} times"
        return ConnectionFailed(text)

    def clear(self) -> None:
        """Count from 0 again: a batch was finished."""
        self._losses.clear()


def end_connection(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """End the session at once; ending it twice is safe.

    psycopg's close() frees libpq's connection. A statement that another task or thread has on its
    way would then read freed memory: the process crashes. So a connection in use is not freed.
    Its socket is shut down: the server ends the session, and the statement ends with an error.
    `connection` gets a closed PGconn instead. The last user of the old one frees it.
    """
    if connection.closed:
        return
    with _lock_if_free(connection.lock) as free:
        if free:
            connection.pgconn.finish()
            return
    used, connection.pgconn = connection.pgconn, _closed_pgconn()
    with suppress(OSError):  # the server has ended the session
        _shut_down(used.socket)


@contextmanager
def breaking_off(connection: psycopg.Connection[Any], seconds: float) -> Iterator[None]:
    """End the statement of the block with an error if it takes longer.

    statement_timeout does not help where the server cannot be reached. Raises as start_thread.
    """
    timer = threading.Timer(seconds, _break_off, [connection])
    timer.daemon = True
    start_thread(timer)
    try:
        yield
    finally:
        timer.cancel()


def _break_off(connection: psycopg.Connection[Any]) -> None:
    with suppress(psycopg.Error, OSError):  # the session has ended
        _shut_down(connection.fileno())


@contextmanager
def _lock_if_free(lock: asyncio.Lock | threading.Lock) -> Iterator[bool]:
    """Hold psycopg's lock, which each user of the connection holds, if it is free: yield that."""
    if isinstance(lock, asyncio.Lock):
        yield not lock.locked()  # no other task runs in the block, which awaits nothing
        return
    free = lock.acquire(blocking=False)
    try:
        yield free
    finally:
        if free:
            lock.release()


def _closed_pgconn() -> pq.abc.PGconn:
    pgconn = pq.PGconn.connect_start(b"=")  # invalid: it connects nowhere
    pgconn.finish()
    return pgconn


def _shut_down(fd: int) -> None:
    borrowed = socket.socket(fileno=fd)
    try:
        borrowed.shutdown(socket.SHUT_RDWR)
    finally:
        borrowed.detach()  # libpq closes it
