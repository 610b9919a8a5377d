"""The processes of the storm: `python storm_load.py produce|letters|effects|archive DSN LOG`.

`produce` inserts in every way, `letters` is shared and parks events that fail, `effects` retries
them and is transactional, `archive` writes files beside the logs. What the others write down: see
history.py and storm_threads.py.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Event as Alarm
from typing import TYPE_CHECKING, Any
from zlib import crc32

import psycopg

from pgqpy.archive.run import ArchiveOptions, run_archive
from pgqpy.archive.store import Store
from pgqpy.consumers import Consumer, retry
from pgqpy.errors import ConnectionFailed
from tests.guarantees.workload import Effects, Log, Producer

if TYPE_CHECKING:
    from pgqpy import Event
    from tests.guarantees.sessions import Session

KEYS = 4  # of each producer
KEYS_A_SECOND = 8  # of insert_event_once
MAX_RETRIES = 2
ARCHIVE = ArchiveOptions("q", max_events=40)
FILES = "files"  # the archive's folder
BETWEEN_RUNS = 0.1  # seconds
MARK = "insert into marker (kind, data, ev_id, dedup_key, is_new) "
PLAIN = (
    MARK + "select 'plain', %s, pgq.insert_event('q', 't', %s, %s, null, null, null), null, true"
)
DELAYED = MARK + (
    "select 'delayed', %s, pgq.insert_event_at('q', clock_timestamp() + %s * interval '1 s', 't',"
    " %s, %s), null, true"
)
ONCE = MARK + (
    "select 'once', %s, ev_id, %s, is_new from pgq.insert_event_once('q', %s, '1 hour', 't', %s)"
)
COPIED = MARK + "values ('copied', %s, null, null, true)"


def fails_once(data: str) -> bool:
    """Whether the shared consumer fails with the event at its first delivery."""
    return crc32(data.encode()) % 10 == 0


def always_fails(data: str) -> bool:
    """Whether it fails each time, until the event is dead."""
    return crc32(data.encode()) % 40 == 1


class Mixed(Producer):
    """Inserts at once, with a delay, once for a key, and by COPY."""

    between = 0.03  # seconds; leaves time to the other processes

    def _write(self, session: Session, keep: list[str], drop: list[str]) -> None:
        session.begin(self.choose.choice(("read committed", "repeatable read")))
        if drop:
            session.run("savepoint one")
            for data in drop:
                session.insert(data)
            session.run("rollback to one")
        if self.choose.random() < 0.2:
            session.copy(self.table, *keep)
            for data in keep:
                session.connection.execute(COPIED, [data])
            return
        for data in keep:
            key = f"{os.getpid()}-{self.number % KEYS}"
            chance = self.choose.random()
            if chance < 0.2:
                delay = self.choose.uniform(-0.1, 1.5)
                session.connection.execute(DELAYED, [data, delay, data, key])
            elif chance < 0.4:
                once = f"once {int(time.monotonic() * KEYS_A_SECOND)}"  # both producers take it
                session.connection.execute(ONCE, [data, once, once, data])
            else:
                session.connection.execute(PLAIN, [data, data, key])


class Letters(Consumer):
    """One process of the shared consumer; it parks what fails."""

    queue, name, key, concurrency = "q", "letters", "extra1", 2
    on_error = "park"
    max_retries = MAX_RETRIES
    backoff = (0.02, 3600.0)  # seconds
    log: Log

    def process_event(self, event: Event) -> None:
        """Write the event down; raise if it is its turn to fail."""
        data, retry = event.data or "", event.retry or 0
        raised = always_fails(data) or (retry == 0 and fails_once(data))
        self.log.write(
            at=time.monotonic(),
            data=data,
            raised=raised,
        )
        if raised:
            raise ValueError(data)


class Retrying(Effects):
    """The transactional consumer; it retries what fails."""

    backoff = (0.3, 3600.0)  # seconds: some are cancelled meanwhile

    def process_event(self, event: Event, connection: psycopg.Connection[Any]) -> None:
        """Have the effect; raise if it is the event's turn to fail."""
        super().process_event(event, connection)
        if event.retry is None and fails_once(event.data or ""):
            raise ValueError(event.data)


def archive(dsn: str, path: str) -> None:
    """Archive what has come, again and again."""
    store, log = Store(str(Path(path).with_name(FILES))), Log(path)
    while True:
        with suppress(psycopg.OperationalError, ConnectionFailed):
            run_archive(ARCHIVE, store, dsn, lambda line: log.write(file=line))
        Alarm().wait(BETWEEN_RUNS)


def main(role: str, dsn: str, path: str) -> None:
    """Run one of the processes until it is killed."""
    if role == "produce":
        Mixed(dsn, Log(path)).run()
    if role == "archive":
        archive(dsn, path)
    consumer = Letters(dsn) if role == "letters" else Retrying(dsn)
    consumer.log = Log(path)
    consumer.run()


if __name__ == "__main__":
    retry.CRASHES = 1_000_000  # whoever kills from outside, does not mean an event
    main(*sys.argv[1:])
