"""Signs of life of a worker whose batch takes long, so that no other worker takes it over.

A worker gives one whenever it takes a batch or finishes a part. While a handler runs for long, the
worker's session is in use, or in a transaction. So a thread gives them over a connection of its
own, which is open only then. A process that is stopped, or that the server cannot reach, gives
none: after dead_interval its batch is taken over. With a lease, each sign extends it.
"""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
from psycopg import Connection

from pgqpy.calls import share
from pgqpy.client import Client, open_session
from pgqpy.client.session_settings import PINNED
from pgqpy.consumers.retry import seconds
from pgqpy.errors import PgqError
from pgqpy.texts import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pgqpy.consumers.settings import BaseConsumer

    OpenBatch = Callable[[], int | None]

logger = logging.getLogger("pgqpy.consumers")

SIGNS = 3  # in dead_interval, or in a lease


class SignsOfLife:
    """A thread that calls touch_batch for a batch that is open for long."""

    def __init__(self, consumer: BaseConsumer, dsn: str, open_batch: OpenBatch) -> None:
        """Take where to connect, and a function that returns the batch that is open."""
        self._consumer = consumer
        self._dsn = dsn
        self._open_batch = open_batch
        self._lease = consumer.lease
        silence = consumer.dead_interval if self._lease is None else self._lease
        self._interval = seconds(silence) / SIGNS  # seconds
        self._closed = threading.Event()
        self._client: Client | None = None

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="pgqpy-signs-of-life", daemon=True).start()

    def close(self) -> None:
        """Let the thread end; does not wait for it."""
        self._closed.set()

    def _run(self) -> None:
        before: int | None = None
        try:
            while not self._closed.wait(self._interval):
                batch = self._open_batch()
                if batch is None or batch != before:
                    self._disconnect()
                else:
                    self._touch(batch)
                before = batch
        finally:
            self._disconnect()

    def _touch(self, batch: int) -> None:
        try:
            if self._client is None:
                self._client = self._connect()
            self._client.runner.run(share.touch_batch(batch, self._lease))
        except (psycopg.Error, PgqError) as error:
            self._disconnect()
            text = "consumer %s of queue %s: no sign of life for batch %d: %s"
            names = (self._consumer.name, self._consumer.queue, batch)
            logger.warning(text, *names, describe(error))

    def _connect(self) -> Client:
        timeout = {"statement_timeout": f"{1000 * self._interval:.0f}ms", **PINNED}
        name = {"fallback_application_name": f"pgqpy signs of life of {self._consumer.name}"}
        connection = open_session(
            self._dsn,
            timeout,
            kind=Connection,
            defaults=name,
            any_session=self._lease is not None,
        )
        return Client(connection)

    def _disconnect(self) -> None:
        if self._client is not None:
            self._client.connection.close()
            self._client = None


@contextmanager
def signs_of_life(consumer: BaseConsumer, dsn: str, open_batch: OpenBatch) -> Iterator[None]:
    """Give signs of life in the block, if several processes may run the consumer."""
    if not consumer.has_workers:
        yield
        return
    signs = SignsOfLife(consumer, dsn, open_batch)
    signs.start()
    try:
        yield
    finally:
        signs.close()
