"""Filling a queue with events and ticks, before a consumer reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from psycopg import sql

import pgqpy

if TYPE_CHECKING:
    from collections.abc import Iterable

DATA = "x" * 180  # about 200 bytes an event
DATA_PREFIX = "select queue_data_pfx from pgq.queue where queue_name = %s"
CONTENTS = "select count(*), coalesce(sum(ev_id), 0)::bigint from {}"
FIRST_TICK = """
    select min(tick_id) from pgq.queue join pgq.tick on tick_queue = queue_id where queue_name = %s
"""
COMMIT = 10_000  # events


class Contents(NamedTuple):
    """The number of events, and the sum of their ids."""

    events: int
    ids: int


def fill(dsn: str, queue: str, ticks: Iterable[int]) -> None:
    """Insert events and tick, so that each tick covers its number of events.

    Create the queue first, and register a consumer, which keeps all events.
    """
    with pgqpy.connect(dsn) as client:
        for events in ticks:
            for start in range(0, events, COMMIT):
                client.insert_events(
                    queue, (("event", DATA) for _ in range(start, min(start + COMMIT, events)))
                )
            client.tick_queue(queue)


def contents(dsn: str, queue: str) -> Contents:
    """Return what is in a queue's event tables."""
    with pgqpy.connect(dsn) as client:
        (prefix,) = client.connection.execute(DATA_PREFIX, (queue,)).fetchone() or ("",)
        statement = sql.SQL(CONTENTS).format(sql.Identifier(*prefix.split(".")))
        return Contents(*client.connection.execute(statement).fetchone() or (0, 0))


def register_at_start(dsn: str, queue: str, consumer: str) -> None:
    """Register a consumer at the queue's first tick, or move it back there."""
    with pgqpy.connect(dsn) as client:
        (first,) = client.connection.execute(FIRST_TICK, (queue,)).fetchone() or (0,)
        client.register_consumer_at(queue, consumer, first)
