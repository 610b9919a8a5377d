"""A backlog of one contestant's queue: made, filled up, received from, and drained at the end."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import psycopg

import pgqpy
from benchmarks import events
from benchmarks.figures import Wrong, verify
from benchmarks.peers import tables
from benchmarks.readers import claims
from benchmarks.readers.claims import CONSUMER, QUEUE, RECEIVERS

if TYPE_CHECKING:
    from collections.abc import Callable

COMMIT = 1000  # events of a transaction
BULK = 10_000  # events of a statement
DRAIN = 10_000  # events of a list
PATIENCE = 10  # seconds for the rest to appear

INSERT = f"""
select count(*), sum(id)::bigint from pgq.insert_events(
    '{QUEUE}', array_fill(text '{events.TYPE}', array[%(count)s::int]),
    array_fill(%(data)s::text, array[%(count)s::int])) id"""


class Source(NamedTuple):
    """How a contestant's queue is made, filled and cleaned."""

    make: Callable[[str], None]
    insert: str
    vacuum: str


def make_queue(dsn: str, key: str | None = None) -> None:
    """Make the queue and its shared consumer, instead of an earlier one."""
    with pgqpy.connect(dsn) as client:
        if client.get_queue_info(QUEUE):
            client.drop_queue(QUEUE, force=True)
        client.create_queue(QUEUE)
        register = "select pgq.register_shared_consumer(%s, %s, %s)"
        client.connection.execute(register, (QUEUE, CONSUMER, key))


def make_pgmq(dsn: str) -> None:
    """Make pgmq's table anew."""
    tables.create(dsn, f"drop table if exists q_bench; {tables.PGMQ}")


def make_plain(dsn: str) -> None:
    """Make the plain table anew."""
    tables.create(dsn, f"drop table if exists job; {tables.PLAIN}")


SOURCES = {
    claims.PGMQ: Source(make_pgmq, tables.PGMQ_SEND, "vacuum analyze q_bench"),
    claims.SKIP_LOCKED: Source(make_plain, tables.PLAIN_INSERT, "vacuum analyze job"),
    **dict.fromkeys(
        claims.OURS, Source(make_queue, INSERT, "vacuum analyze pgq.inflight, pgq.front")
    ),
}


@dataclass
class Backlog:
    """The events of a contestant that are inserted and not yet received.

    Attributes:
        contestant: of `claims.RECEIVERS`.
        dsn: its database.
        events, ids: the number of events left, and the sum of their ids.
    """

    contestant: str
    dsn: str
    events: int = field(default=0, init=False)
    ids: int = field(default=0, init=False)

    def make(self) -> None:
        """Begin with an empty queue."""
        SOURCES[self.contestant].make(self.dsn)
        self.events = self.ids = 0

    def fill(self, level: int) -> None:
        """Insert events up to a number, a thousand a transaction; then clean up."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("set synchronous_commit = off")
            while self.events < level:
                self._insert(connection, min(COMMIT, level - self.events))
        self.clean()

    def fill_at_once(self, count: int) -> None:
        """Insert events in one transaction."""
        with psycopg.connect(self.dsn) as connection:
            for start in range(0, count, BULK):
                self._insert(connection, min(BULK, count - start))

    def clean(self) -> None:
        """Remove the dead rows of what happened before, and write what is dirty."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(SOURCES[self.contestant].vacuum.encode())
            connection.execute("checkpoint")

    def first(self, limit: int) -> float:
        """Take the first turn, with a list of `limit` events; return its seconds."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            receiver = RECEIVERS[self.contestant](connection, limit)
            began = time.perf_counter()
            found = receiver.turn()
            took = time.perf_counter() - began
            receiver.end()
        if not found:
            raise Wrong(f"{self.contestant}: nothing came in the first turn")
        self.remove(len(found), sum(found))
        return took

    def remove(self, number: int, ids: int) -> None:
        """Note what receivers took."""
        self.events -= number
        self.ids -= ids

    def drain(self) -> None:
        """Receive the rest; Wrong unless each event came once since the queue was made."""
        deadline = time.monotonic() + PATIENCE
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            receiver = RECEIVERS[self.contestant](connection, DRAIN)
            # Once more at the end: an event that comes twice is wrong too.
            while (found := receiver.turn()) or (self.events > 0 and time.monotonic() < deadline):
                self.remove(len(found), sum(found))
                deadline = time.monotonic() + PATIENCE if found else deadline
        verify(f"{self.contestant}: events that are missing", self.events, 0)
        verify(f"{self.contestant}: the sum of their ids", self.ids, 0)

    def _insert(self, connection: psycopg.Connection, count: int) -> None:
        params = {"count": count, "data": events.data(0)}
        row = connection.execute(SOURCES[self.contestant].insert.encode(), params).fetchone()
        number, ids = row or (0, 0)
        verify(f"{self.contestant}: events inserted", number, count)
        self.events += number
        self.ids += ids
