"""A producer, as a process: `python -m pgqpy.simulate.producer NUMBER EVENTS RATE FILE OPTIONS`.

It inserts so many events in transactions of its own: of one or several events, some rolled back,
some to a savepoint, some that overlap another one.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psycopg

from pgqpy import Client, connect
from pgqpy.simulate.line_log import LineLog
from pgqpy.simulate.options import PRODUCERS, QUEUE, TYPES, Options

if TYPE_CHECKING:
    from collections.abc import Callable

MOST = 6  # events of a transaction
ROLLED_BACK, TO_SAVEPOINT, OVERLAPPING = 0.1, 0.2, 0.4  # cumulated shares of the transactions


class Producer(NamedTuple):
    """Inserts events over two connections: transactions of one can overlap those of the other."""

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


def main(number: int, events: int, rate: float, path: Path, options: Options) -> None:
    """Run the producer; PGQPY_DSN names the database."""
    rng = random.Random(f"{options.seed} producer {path.stem}")
    used = iter(range(number, sys.maxsize, PRODUCERS))
    with connect() as first, connect() as second:
        log = LineLog(path, producer=number)
        producer = Producer(first, second, log, rng, lambda: next(used), options.keys)
        produce(producer, events, rate)


if __name__ == "__main__":
    _, at, count, speed, file, options = sys.argv
    main(int(at), int(count), float(speed), Path(file), Options.from_json(options))
