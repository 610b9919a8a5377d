"""A worker that handles events in the order of their keys, 1 ms each (a process of its own)."""

from __future__ import annotations

import random
import signal
import sys
import time
from threading import Event
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import psycopg

from benchmarks.figures import verify
from benchmarks.load.arrivals import answer
from benchmarks.peers import tables
from benchmarks.readers.claims import CONSUMER, QUEUE
from pgqpy.consumers import TransactionalConsumer

if TYPE_CHECKING:
    from psycopg import Connection

    import pgqpy

POLL = 0.01  # seconds between empty polls, on average
WORK = 0.001  # seconds in a handler
SKIP_LOCKED, PGQPY, CONSUMER_CLASS = "SKIP LOCKED", "pgqpy", "pgqpy Consumer"
HOT = "hot"  # the key of a backlog that waits beside the others
RECEIVE = f"""
select ev_extra1, ev_data, ev_id, token
  from pgq.receive('{QUEUE}', '{CONSUMER}', %s, i_alone => true)"""
DONE = f"select pgq.done('{QUEUE}', '{CONSUMER}', %s, %s)"


class Handled(NamedTuple):
    """An event that was handled; times are nanoseconds of CLOCK_MONOTONIC."""

    key: str
    number: int
    inserted: int  # when its insert began
    started: int  # when its handler began
    ended: int  # when the handler's transaction had committed


class Log:
    """What a worker handled.

    Attributes:
        handled: the events.
        count: how many of them are not of the hot key.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.handled: list[Handled] = []
        self.count = 0

    def note(self, key: str, text: str, started: int) -> None:
        """Note an event of the text "number inserted"."""
        number, inserted = map(int, text.split())
        self.handled.append(Handled(key, number, inserted, started, time.monotonic_ns()))
        self.count += key != HOT


def work() -> int:
    """Do a handler's work; return when it began."""
    started = time.monotonic_ns()
    time.sleep(WORK)
    return started


def by_skip_locked(connection: Connection[Any], _limit: int, log: Log) -> bool:
    """Handle the oldest event that is the first of its key; say whether there was one."""
    with connection.transaction():
        row = connection.execute(tables.KEYED_HEAD, prepare=True).fetchone()
        if row:
            number, key, text = row
            started = work()
            connection.execute(tables.KEYED_DELETE, (number,), prepare=True)
    if row:
        log.note(key, text, started)
    return bool(row)


def by_pgqpy(connection: Connection[Any], limit: int, log: Log) -> bool:
    """Receive events and handle each in a transaction of its own, with its done."""
    rows = connection.execute(RECEIVE.encode(), (limit,), prepare=True).fetchall()
    for key, text, number, token in rows:
        with connection.transaction():
            started = work()
            done = connection.execute(DONE.encode(), (token, [number]), prepare=True).fetchone()
            verify("events that were done", done, (1,))
        log.note(key, text, started)
    return bool(rows)


TURNS = {SKIP_LOCKED: by_skip_locked, PGQPY: by_pgqpy}


class Worker(TransactionalConsumer):
    """Handles each event in a transaction of its own, as a class of the library."""

    queue, name = QUEUE, CONSUMER
    key: Literal["extra1"] = "extra1"

    def __init__(self, dsn: str, log: Log) -> None:
        """Note what is handled in the log."""
        super().__init__(dsn)
        self._log = log
        self.ended = Event()

    def process_event(self, event: pgqpy.Event, _connection: object) -> None:
        """Work. The time noted is before the commit: it cannot be seen from here."""
        started = work()
        self._log.note(event.extra1 or "", event.data or "", started)

    def end(self) -> list[Handled]:
        """Stop, and return what was handled."""
        self.stop()
        self.ended.wait()
        return self._log.handled


def main(contestant: str, dsn: str, limit: str) -> None:
    """Run until asked to stop; then answer with what was handled."""
    log, stopping, stopped = Log(), Event(), Event()

    def stop() -> list[Handled]:
        stopping.set()
        stopped.wait()
        return log.handled

    if contestant == CONSUMER_CLASS:
        worker = Worker(dsn, log)
        answer({"count": lambda: log.count, "stop": worker.end})
        worker.run()
        worker.ended.set()
        signal.pause()
    answer({"count": lambda: log.count, "stop": stop})
    with psycopg.connect(dsn, autocommit=True) as connection:
        while not stopping.is_set():
            if not TURNS[contestant](connection, int(limit), log):
                time.sleep(random.uniform(0.5, 1.5) * POLL)
    stopped.set()
    signal.pause()  # while the answer is sent: the parent terminates the process


if __name__ == "__main__":
    main(*sys.argv[1:])
