"""Producers and workers, as processes, and their log: `python -m pgqpy.simulate.processes …`."""

from __future__ import annotations

import json
import logging
import os
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import psycopg

from pgqpy import Client, connect
from pgqpy.consumers import Consumer
from pgqpy.simulate.options import (
    CONSUMER,
    MAX_RETRIES,
    PART_SIZE,
    PRODUCERS,
    QUEUE,
    TYPES,
    Options,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pgqpy import Event
    from pgqpy.consumers import ConsumerSettings
    from pgqpy.sandbox import View

    Line = dict[str, Any]


SUFFIX = ".jsonl"


class LineLog:
    """The log of events of one process. Threads may write at the same time.

    A line is one write, so that SIGKILL takes back no line that was written. Times are those of the
    machine's monotonic clock, in nanoseconds: processes of one machine share it.

        {"at": …, "do": "insert", "producer": 0, "event": 7, "number": 3, "key": "key-1", …}
        {"at": …, "do": "commit", "producer": 0, "events": [7]}      or "rollback"
        {"at": …, "do": "begin", "run": 0, "event": 7, "retry": null, "number": 3, …}
        {"at": …, "do": "end", "run": 0, "event": 7, "ok": true}
        {"at": …, "do": "lost", "run": 0}          the worker lost its session
        {"at": …, "do": "kill", "run": 0}
    """

    def __init__(self, path: Path, **always: int) -> None:
        """Open the file. Each line gets what is in `always`, the process's number."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._file = os.open(path, flags, 0o600)
        self._always = always

    def write(self, do: str, **fields: Any) -> None:
        """Append one line."""
        line = {"at": time.monotonic_ns(), "do": do, **self._always, **fields}
        os.write(self._file, json.dumps(line).encode() + b"\n")

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class LogReader:
    """Reads what has been written to all files of a folder, each line once."""

    def __init__(self, folder: Path) -> None:
        """Read nothing yet."""
        self._folder = folder
        self._read: dict[Path, int] = {}  # bytes

    def new_lines(self) -> list[Line]:
        """Return the lines since the last call, by time. A line that is cut short is left out."""
        found: list[Line] = []
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                whole, newline, _ = file.read().rpartition(b"\n")
            self._read[path] = self._read.get(path, 0) + len(whole) + len(newline)
            found += map(json.loads, whole.splitlines())
        return sorted(found, key=lambda line: int(line["at"]))


class Progress:
    """Counts lines of the log, and shows the counts."""

    def __init__(self, view: View) -> None:
        """Count from zero."""
        self._view = view
        self._began = self._last = time.monotonic()
        self._committed = self._handled = self._failed = 0
        self.kills = 0
        self.at_work: set[int] = set()  # the runs that have handled something

    @property
    def idle(self) -> float:
        """The seconds since the last line of the log."""
        return time.monotonic() - self._last

    def add(self, lines: Iterable[dict[str, Any]]) -> None:
        """Count the lines, and show the counts."""
        for line in lines:
            self._last = time.monotonic()
            if line["do"] == "commit":
                self._committed += len(line["events"])
            elif line["do"] == "end":
                self.at_work.add(line["run"])
                self._handled += line["ok"]
                self._failed += not line["ok"]
        cells = [
            ("committed", f"{self._committed:,}"),
            ("handled", f"{self._handled:,}"),
            ("failed", f"{self._failed:,}"),
            ("kills", str(self.kills)),
        ]
        self._view.show(time.monotonic() - self._began, cells)


def write_lines(file: TextIO, lines: Iterable[dict[str, Any]]) -> None:
    """Write the lines to the file of --log."""
    file.writelines(f"{json.dumps(line)}\n" for line in lines)
    file.flush()


MOST = 6  # events of a transaction
ROLLED_BACK, TO_SAVEPOINT, OVERLAPPING = 0.1, 0.2, 0.4  # cumulated shares of the transactions


class Producer(NamedTuple):
    """Inserts events, some rolled back, some to a savepoint, some in overlapping transactions.

    It uses two connections: transactions of one can overlap those of the other.
    """

    first: Client
    second: Client
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
        key = f"key-{self.rng.randrange(self.keys)}"
        kind = self.rng.choice(TYPES)
        number = self.numbers()
        payload = {"key": key, "number": number}
        event = client.insert_event(QUEUE, kind, payload, extra1=key)
        self.log.write("insert", event=event, number=number, key=key, type=kind)
        return event


def produce(producer: Producer, events: int, rate: float) -> None:
    """Commit so many events, at most `rate` a second; 0: as fast as possible."""
    began, done = time.monotonic(), 0
    while done < events:
        done += producer.step(events - done)
        if rate:
            time.sleep(max(0.0, began + done / rate - time.monotonic()))


def run_producer(path: Path, options: Options, number: int, events: int, rate: float) -> None:
    """Run a producer; PGQPY_DSN names the database."""
    rng = random.Random(f"{options.seed} producer {path.stem}")
    used = iter(range(number, sys.maxsize, PRODUCERS))
    with connect() as first, connect() as second:
        log = LineLog(path, producer=number)
        producer = Producer(first, second, log, rng, lambda: next(used), options.keys)
        produce(producer, events, rate)


class SimulatedFailure(Exception):
    """The handler failed, as --fail demands."""


class Worker(Consumer):
    """Sleeps, and fails now and then; writes down what it does before and after."""

    queue = QUEUE
    name = CONSUMER
    max_retries = MAX_RETRIES
    backoff = (0.1, 3600.0)  # seconds

    def __init__(self, log: LineLog, options: Options) -> None:
        """Connect to nothing yet; PGQPY_DSN names the database."""
        kind: ConsumerSettings = {"part_size": PART_SIZE}
        if options.is_shared:
            kind = {
                "shared": True,
                "key": "extra1" if options.ordered else None,
                "on_error": "park" if options.park else "retry",
                "concurrency": options.concurrency,
                "limit": PART_SIZE,
            }
        if options.types:
            kind["filter"] = {"type": options.types}
        super().__init__(**kind)
        self._log = log
        self._options = options

    def process_event(self, event: Event) -> None:
        """Handle an event. What it does depends on the seed, the event and its retry only."""
        data = event.json()
        self._log.write(
            "begin",
            event=event.id,
            retry=event.retry,
            number=data["number"],
            key=data["key"],
            type=event.type,
        )
        rng = random.Random(f"{self._options.seed} event {event.id} {event.retry}")
        time.sleep(rng.uniform(*self._options.work))
        failed = rng.random() < self._options.fail
        self._log.write("end", event=event.id, ok=not failed)
        if failed:
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
    worker.run()


if __name__ == "__main__":
    _, kind, file, options, *numbers = sys.argv
    where = (Path(file), Options.from_json(options))
    if kind == "worker":
        run_worker(*where, int(numbers[0]))
    else:
        run_producer(*where, int(numbers[0]), int(numbers[1]), float(numbers[2]))
