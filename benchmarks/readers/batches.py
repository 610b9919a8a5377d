"""Ways to consume the backlog of a queue; each returns the seconds from first to last event."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

import psycopg

from benchmarks.figures import verify
from benchmarks.peers import debian
from pgqpy.consumers import AsyncConsumer, Consumer

if TYPE_CHECKING:
    from typing_extensions import Self

LOG = logging.getLogger("pgqpy.consumers")
QUEUE = "bench"
NEXT_BATCH = "select pgq.next_batch(%s, %s)"
EVENTS = "select * from pgq.get_batch_events(%s)"
FINISH = "select pgq.finish_batch(%s)"


class Counting(Consumer):
    """Does nothing with an event, and stops after the last."""

    queue = QUEUE
    wanted = 0
    seen = 0

    def process_event(self, _event: object) -> None:
        """Do nothing."""
        self.seen += 1
        if self.seen == self.wanted:
            self.stop()


class AsyncCounting(AsyncConsumer):
    """The same with asyncio."""

    queue = QUEUE
    wanted = 0
    seen = 0

    async def process_event(self, _event: object) -> None:
        """Do nothing."""
        self.seen += 1
        if self.seen == self.wanted:
            self.stop()


class Clock(logging.Handler):
    """Measures the time between the log lines of a consumer's start and stop."""

    took = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Note the time; the first record is the beginning."""
        if record.levelno == logging.INFO:
            now = time.perf_counter()
            self._began = getattr(self, "_began", now)
            self.took = now - self._began

    def __enter__(self) -> Self:
        """Listen to the log of consumers."""
        LOG.addHandler(self)
        LOG.setLevel(logging.INFO)
        return self

    def __exit__(self, *_: object) -> None:
        """Listen no more."""
        LOG.removeHandler(self)


def by_consumer(dsn: str, name: str, wanted: int) -> float:
    """Consume by a Consumer."""
    consumer = Counting(dsn, name=name)
    consumer.wanted = wanted
    with Clock() as clock:
        consumer.run()
    verify("events that Consumer saw", consumer.seen, wanted)
    return clock.took


def by_async_consumer(dsn: str, name: str, wanted: int) -> float:
    """Consume by an AsyncConsumer."""
    consumer = AsyncCounting(dsn, name=name)
    consumer.wanted = wanted
    with Clock() as clock:
        asyncio.run(consumer.run())
    verify("events that AsyncConsumer saw", consumer.seen, wanted)
    return clock.took


def by_loop(dsn: str, name: str, wanted: int, *, binary: bool = False) -> float:
    """Consume by the shortest loop that works with psycopg."""
    seen = 0
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.cursor(binary=binary)
        began = time.perf_counter()
        while (batch := cursor.execute(NEXT_BATCH, (QUEUE, name)).fetchone()) != (None,):
            for _row in cursor.execute(EVENTS, batch).fetchall():
                seen += 1
            cursor.execute(FINISH, batch)
        took = time.perf_counter() - began
    verify("events that the loop saw", seen, wanted)
    return took


def by_binary_loop(dsn: str, name: str, wanted: int) -> float:
    """Consume by that loop with binary results."""
    return by_loop(dsn, name, wanted, binary=True)


def by_python_pgq(dsn: str, name: str, wanted: int) -> float:
    """Consume by python-pgq's Consumer, in a process of its own; it counts too."""
    return debian.python_pgq("consume", dsn, wanted, name)
