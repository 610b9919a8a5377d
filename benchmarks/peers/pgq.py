"""PGQ 3.5 in C, as Debian ships it, with its Python client python-pgq."""

from __future__ import annotations

import psycopg

QUEUE = "bench"


def set_up(dsn: str) -> None:
    """Create the extension and a queue."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create extension pgq")
        connection.execute("select pgq.create_queue(%s)", (QUEUE,))


def insert(data: str) -> str:
    """Return the statement that inserts one event."""
    return f"select pgq.insert_event('{QUEUE}', 't', '{data}');"


COUNT = "select count(*) from pgq.event_1"
