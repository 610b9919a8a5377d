"""A watch on a queue that rotates: sessions that wait for it, its disk, the times of rotations."""

from __future__ import annotations

import time
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Connection

EVERY = 0.01  # seconds between looks for waiting producers
SIZE_EVERY = 0.5  # seconds between looks at the disk
# How long a session of pgbench has been waiting for a lock that a session of the ticker has.
WAITING = """
    select coalesce(max(extract(epoch from clock_timestamp() - l.waitstart)), 0)::float8
    from pg_locks l join pg_stat_activity a using (pid)
    where not l.granted and a.application_name = 'pgbench' and exists (
        select from pg_stat_activity t
        where t.pid = any(pg_blocking_pids(l.pid)) and t.application_name like 'pgqpy ticker%'
    )
"""
STATE = """
    select sum(pg_total_relation_size(c.oid))::float8,
           (select extract(epoch from queue_switch_time)::float8 from pgq.queue)
    from pg_class c
    where relnamespace = 'pgq'::regnamespace and relkind = 'r' and relname ~ '^event_[0-9]'
"""


class RotationWatch:
    """The waits, sizes and rotations seen so far. There is one queue in the database."""

    def __init__(self, dsn: str) -> None:
        """Take the database."""
        self.longest = 0.0  # seconds that a producer waited for the ticker
        self.sizes: list[tuple[float, float]] = []  # seconds, bytes
        self.switches: list[float] = []  # of tables, seconds since 1970
        self._dsn = dsn
        self._stopping = Event()

    def run(self) -> None:
        """Look until `stop`."""
        start = next_size = time.monotonic()
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            while not self._stopping.wait(EVERY):
                self._look_for_waits(connection)
                now = time.monotonic()
                if now >= next_size:
                    self._look_at_tables(connection, now - start)
                    next_size = now + SIZE_EVERY

    def stop(self) -> None:
        """End `run`."""
        self._stopping.set()

    def _look_for_waits(self, connection: Connection[Any]) -> None:
        (seconds,) = connection.execute(WAITING).fetchone() or (0.0,)
        self.longest = max(self.longest, seconds)

    def _look_at_tables(self, connection: Connection[Any], at: float) -> None:
        size, switched = connection.execute(STATE).fetchone() or (0.0, 0.0)
        self.sizes.append((at, size))
        if switched not in self.switches:
            self.switches.append(switched)


@contextmanager
def watching(dsn: str) -> Iterator[RotationWatch]:
    """Watch for as long as the block lasts."""
    watch = RotationWatch(dsn)
    thread = Thread(target=watch.run)
    thread.start()
    try:
        yield watch
    finally:
        watch.stop()
        thread.join()
