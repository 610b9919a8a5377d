"""Inserting one event in one transaction: a function of the event's text for each contestant."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg

import pgqpy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    Send = Callable[[str], Any]

TYPE = "event"


@contextmanager
def pgq(dsn: str, queue: str) -> Iterator[Send]:
    """Insert into pgqpy's engine or PGQ in C: the same call of the same client."""
    with pgqpy.connect(dsn) as client:
        yield lambda text: client.insert_event(queue, TYPE, text)


@contextmanager
def pgmq(dsn: str, queue: str) -> Iterator[Send]:
    """Send by SQL: its client would add to the time."""
    statement = "select pgmq.send(%s, %s::jsonb)"
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield lambda text: connection.execute(statement, (queue, f'"{text}"'))


@contextmanager
def pgqueuer(dsn: str, queue: str) -> Iterator[Send]:
    """Enqueue by its client."""
    from pgqueuer.db import SyncPsycopgDriver  # noqa: PLC0415  # where it is installed
    from pgqueuer.queries import SyncQueries  # noqa: PLC0415  # as above

    with psycopg.connect(dsn, autocommit=True) as connection:
        queries = SyncQueries(SyncPsycopgDriver(connection))
        yield lambda text: queries.enqueue(queue, text.encode())


SENDERS: dict[str, Callable[[str, str], AbstractContextManager[Send]]] = {
    "pgqpy": pgq,
    "pgq": pgq,
    "pgmq": pgmq,
    "pgqueuer": pgqueuer,
}
