"""The end of a connection for good, even while tasks or threads of a handler still use it."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import pq

from pgqpy.consumers.threads import start_thread

if TYPE_CHECKING:
    from collections.abc import Iterator


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
