"""Heartbeats of a worker whose batch takes long, so that no other worker takes it over.

Taking a batch and finishing a part are heartbeats. While a handler runs for long, the worker's
session is in use, or in a transaction. So a thread sends them over a connection of its own, which
is open only then. A process that is stopped, or that the server cannot reach, sends none: after
dead_interval its batch is taken over. With a lease, each heartbeat extends it.

The thread also finds that a batch was taken over. It may get no connection, or wait for one, while
the worker's own session works. So the worker, too, asks before it begins another event, if the next
heartbeat is overdue. It cannot while one event takes long, or in the transaction of handlers: then,
after dead_interval, it reports an outage.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import psycopg

from pgqpy.calls import share
from pgqpy.client import connect_as_tool
from pgqpy.client.opening import PINNED
from pgqpy.consumers import waiting
from pgqpy.consumers.connections import breaking_off
from pgqpy.consumers.measures import Outage
from pgqpy.consumers.retry import seconds
from pgqpy.consumers.waiting import start_thread
from pgqpy.errors import PgqError
from pgqpy.texts import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pgqpy.client import Client
    from pgqpy.consumers.settings import BaseConsumer


logger = logging.getLogger("pgqpy.consumers")

BEATS = 3  # in dead_interval, or in a lease
REASON = (
    "other workers may take it over. A worker needs a second connection while its batch takes long:"
    " let its role or pool have one more for each worker, raise {}, or set a smaller part_size"
)


class HeldBatch:
    """The open batch of a loop, and what to check before its next event begins."""

    def __init__(self, consumer: BaseConsumer | None = None) -> None:
        """Hold none. Without workers, a batch is in doubt only if the session may have ended."""
        self.id: int | None = None
        self.must_check = False  # the session may have ended, and another process have the batch
        self.beat_at = 0.0  # the last heartbeat, by waiting.boottime()
        self.asking = threading.Lock()  # one thread asks at a time
        self._silence = math.inf  # seconds, after which others may take the batch
        self._setting = "dead_interval"
        if consumer is not None and consumer.has_workers:
            self._silence = longest_silence(consumer)
            self._setting = "dead_interval" if consumer.lease is None else "lease"
        self._patience = self._silence * (BEATS - 1) / BEATS  # seconds, after which to ask

    @property
    def in_doubt(self) -> bool:
        """Whether to check the session, or to send a heartbeat, before the next event."""
        return self.must_check or self.is_silent

    @property
    def is_silent(self) -> bool:
        """Whether the next heartbeat is overdue. Always false without workers."""
        return waiting.boottime() - self.beat_at >= self._patience

    def take(self, batch: int | None, at: float) -> None:
        """Note the batch that is open, and when its last heartbeat was sent; None: none is."""
        self.beat_at = at  # before the id: other threads read both, without a lock
        self.id = batch

    def beat(self, at: float, *, is_open: bool) -> None:
        """Note that a heartbeat was sent at this time, and whether the batch was open."""
        self.beat_at = at if is_open else -math.inf

    def part_finished(self, at: float) -> None:
        """Note when a part was finished: that is a heartbeat, but extends no lease."""
        if self._setting != "lease":
            self.beat(at, is_open=True)

    def outage(self) -> Outage | None:
        """Return since when no heartbeat was sent, if others may have the batch by now.

        A batch that was taken over already is no outage: the log tells of it.
        """
        batch, silence = self.id, waiting.boottime() - self.beat_at
        if batch is None or not self._silence <= silence < math.inf:
            return None
        since = time.monotonic() - silence
        return Outage(REASON.format(self._setting), since, f"no heartbeat for batch {batch}")


def longest_silence(consumer: BaseConsumer) -> float:
    """Return after how many seconds without a heartbeat a batch may be taken over."""
    return seconds(consumer.dead_interval if consumer.lease is None else consumer.lease)


class Loop(Protocol):
    """What the thread sees of a consumer's loop."""

    held: HeldBatch


class Heartbeats:
    """A thread that calls touch_batch for a batch that is open for long."""

    def __init__(self, consumer: BaseConsumer, dsn: str, loop: Callable[[], Loop | None]) -> None:
        """Take where to connect, and a function that returns the loop that runs."""
        self._consumer = consumer
        self._dsn = dsn
        self._loop = loop
        self._lease = consumer.lease
        self._silence = longest_silence(consumer)
        self._interval = self._silence / BEATS  # seconds
        self._closed = threading.Event()
        self._client: Client | None = None

    def start(self) -> None:
        """Start the thread; raises as start_thread."""
        name = "pgqpy-heartbeat"
        start_thread(threading.Thread(target=self._run, name=name, daemon=True))

    def close(self) -> None:
        """Let the thread end; does not wait for it."""
        self._closed.set()

    def _run(self) -> None:
        before: int | None = None
        try:
            while not self._closed.wait(self._interval):
                loop = self._loop()
                held = HeldBatch() if loop is None else loop.held
                batch, silence = held.id, waiting.boottime() - held.beat_at
                if batch is None or (batch != before and silence < self._silence):
                    self._disconnect()
                else:
                    self._beat(held, batch)
                before = batch
        finally:
            self._disconnect()

    def _beat(self, held: HeldBatch, batch: int) -> None:
        now = waiting.boottime()
        try:
            if self._client is None:
                self._client = self._connect()
            with breaking_off(self._client.connection, self._interval):
                is_open = self._client.call(share.touch_batch(batch, self._lease))
        except (psycopg.Error, PgqError) as error:
            self._disconnect()
            text = "consumer %s of queue %s: no heartbeat for batch %d: %s"
            names = (self._consumer.name, self._consumer.queue, batch)
            logger.warning(text, *names, describe(error))
        else:
            if held.id == batch:
                held.beat(now, is_open=is_open)

    def _connect(self) -> Client:
        timeout = f"{1000 * self._interval:.0f}ms"
        settings = {**PINNED, "statement_timeout": timeout, "idle_session_timeout": "0"}
        name: dict[str, Any] = {
            "fallback_application_name": f"pgqpy heartbeat of {self._consumer.name}",
            "connect_timeout": math.ceil(self._interval),  # seconds
        }
        return connect_as_tool(self._dsn, settings, any_session=self._lease is not None, **name)

    def _disconnect(self) -> None:
        if self._client is not None:
            self._client.connection.close()
            self._client = None


@contextmanager
def heartbeats(consumer: BaseConsumer, dsn: str, loop: Callable[[], Loop | None]) -> Iterator[None]:
    """Send heartbeats in the block, if several processes may run the consumer."""
    if not consumer.has_workers:
        yield
        return
    thread = Heartbeats(consumer, dsn, loop)
    thread.start()
    try:
        yield
    finally:
        thread.close()
