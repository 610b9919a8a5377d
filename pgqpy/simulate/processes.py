"""Producers and workers, as processes: `python -m pgqpy.simulate.processes …`."""

from __future__ import annotations

import logging
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psycopg

from pgqpy import Client, connect
from pgqpy.consumers import Consumer
from pgqpy.simulate import peer
from pgqpy.simulate.checker import Content
from pgqpy.simulate.log import LineLog, handle
from pgqpy.simulate.options import (
    CONSUMER,
    LIMIT,
    MAX_RETRIES,
    PRODUCERS,
    QUEUE,
    TYPES,
    Options,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgqpy import Event

    Insert = Callable[[Client, str, int, int], int]  # type, order and number of an event; its id


MOST = 6  # events of a transaction
ROLLED_BACK, TO_SAVEPOINT, OVERLAPPING = 0.1, 0.2, 0.4  # cumulated shares of the transactions


class Producer(NamedTuple):
    """Inserts events, some rolled back, some to a savepoint, some in overlapping transactions.

    It uses two connections: transactions of one can overlap those of the other.
    """

    first: Client
    second: Client
    insert: Insert
    log: LineLog
    rng: random.Random
    numbers: Callable[[], int]  # the next number of an event
    keys: int

    def step(self, most: int) -> int:
        """Run one transaction, or two that overlap; return how many events were committed."""
        kind = self.rng.random()
        count = self.rng.randint(1, min(MOST, most))
        if kind < ROLLED_BACK:
            self._roll_back(count)
            return 0
        if kind < TO_SAVEPOINT:
            with self.first.transaction():
                kept = self._insert(self.first, count)
                self._roll_back(1)
            self.log.write("commit", events=kept)
            return count
        if kind < OVERLAPPING and most > count:
            return self._overlap(count)
        with self.first.transaction():
            kept = self._insert(self.first, count)
        self.log.write("commit", events=kept)
        return count

    def _overlap(self, count: int) -> int:
        """Begin a transaction before the others of a step, and commit it after them."""
        with self.second.transaction():
            late = self._insert(self.second, 1)
            with self.first.transaction():
                kept = self._insert(self.first, count)
            self.log.write("commit", events=kept)
        self.log.write("commit", events=late)
        return count + 1

    def _roll_back(self, count: int) -> None:
        """Insert events and roll them back: to a savepoint if a transaction is open."""
        dropped: list[int] = []
        with self.first.connection.transaction():
            dropped += self._insert(self.first, count)
            raise psycopg.Rollback
        self.log.write("rollback", events=dropped)

    def _insert(self, client: Client, count: int) -> list[int]:
        return [self._insert_one(client) for _ in range(count)]

    def _insert_one(self, client: Client) -> int:
        order, kind = divmod(self.rng.randrange(self.keys), len(TYPES))
        content = Content(self.numbers(), f"{TYPES[kind]}:{order}", TYPES[kind])
        began = time.monotonic_ns()
        event = self.insert(client, content.type, order, content.number)
        self.log.write("insert", at=began, event=event, **content._asdict())
        return event


def insert(client: Client, kind: str, order: int, number: int) -> int:
    """Insert an event; return its id."""
    key = f"{kind}:{order}"
    return client.insert_event(QUEUE, kind, {"key": key, "number": number}, extra1=key)


def content_of(event: Event) -> Content:
    """Return what `insert` has stored."""
    data = event.json()
    if data["key"] != event.extra1:
        return Content(data["number"], f"{data['key']} in data, {event.extra1} in extra1", "")
    return Content(data["number"], data["key"], event.type or "")


def produce(producer: Producer, events: int, rate: float) -> None:
    """Commit so many events, at most `rate` a second; 0: as fast as possible."""
    began, done = time.monotonic(), 0
    while done < events:
        done += producer.step(events - done)
        if rate:
            time.sleep(max(0.0, began + done / rate - time.monotonic()))


def run_producer(path: Path, options: Options, number: int, insert: Insert) -> None:
    """Run one of the producers; PGQPY_DSN names the database."""
    events = options.fill // PRODUCERS + (number < options.fill % PRODUCERS)
    rng = random.Random(f"{options.seed} producer {number}")
    used = iter(range(number, sys.maxsize, PRODUCERS))
    with connect() as first, connect() as second:
        log = LineLog(path, producer=number)
        producer = Producer(first, second, insert, log, rng, lambda: next(used), options.keys)
        produce(producer, events, options.rate / PRODUCERS)


class SimulatedFailure(Exception):
    """The handler failed, as --fail demands."""


class Worker(Consumer):
    """A shared consumer that keeps the order per key, also while events fail."""

    queue = QUEUE
    name = CONSUMER
    key = "extra1"
    on_error = "park"
    limit = LIMIT
    max_retries = MAX_RETRIES
    backoff = (0.1, 3600.0)  # seconds

    def __init__(self, log: LineLog, options: Options) -> None:
        """Connect to nothing yet; PGQPY_DSN names the database."""
        super().__init__()
        self._log = log
        self._options = options

    def process_event(self, event: Event) -> None:
        """Handle an event."""
        if not handle(self._log, self._options, event.id, content_of(event), event.retry):
            raise SimulatedFailure


class LostSession(logging.Handler):
    """Writes down when the worker loses its session: its unfinished events come again."""

    def __init__(self, worker: Worker, log: LineLog) -> None:
        """Watch the warnings that a consumer logs about itself."""
        super().__init__(logging.WARNING)
        self._worker = worker
        self._log = log

    def emit(self, _record: logging.LogRecord) -> None:
        """Ask the worker whether it has a session."""
        if self._worker.outage() is not None:
            self._log.write("lost")


def run_worker(path: Path, options: Options, run: int) -> None:
    """Run a worker until SIGTERM."""
    log = LineLog(path, run=run)
    worker = Worker(log, options)
    logging.basicConfig(level=logging.INFO)
    logging.getLogger("pgqpy.consumers").addHandler(LostSession(worker, log))
    log.write("start")
    worker.run()


if __name__ == "__main__":
    _, kind, file, options, number = sys.argv
    where = (Path(file), Options.from_json(options), int(number))
    if kind == "worker":
        run_worker(*where)
    elif kind == "producer":
        run_producer(*where, insert)
    elif kind == "peer-worker":
        peer.run_worker(*where)
    else:
        run_producer(*where, peer.insert)
