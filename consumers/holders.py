"""The leases of the claims of a process: a thread renews them, over a connection of its own.

A process is one holder for each queue that it reads, with one lease for all its claims there. The
thread goes on while handlers block an event loop, or the consumer's own session is lost. When this
connection ends, the server knows that the process died: its claims end at once. Behind a pooler the
server cannot know: there the claims end with the lease.

When a run ends, the thread returns the events that are still claimed, also after a second signal or
a cancelled task.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg

from pgqpy.calls import inflight
from pgqpy.client import connect_as_tool
from pgqpy.client.opening import PINNED
from pgqpy.consumers.connections import breaking_off
from pgqpy.consumers.waiting import Wakeup, boottime, start_thread
from pgqpy.errors import ConsumerDetached, ConsumerNotFound, PgqError, QueueNotFound, WrongMode
from pgqpy.texts import describe, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pgqpy.client import Client

logger = logging.getLogger("pgqpy.consumers")

BEATS = 3  # in a lease
PAUSE = 1.0  # seconds until the next attempt to connect
HOST_LENGTH = 100  # characters
CLOSING = 2.0  # seconds to return claimed events


class Holders:
    """The holders of one run of a consumer, by queue."""

    def __init__(
        self,
        dsn: str,
        consumer: str,
        queues: Sequence[str],
        lease: float,
        wake: Callable[[], None],
        closed: Wakeup,
    ) -> None:
        """Hold nothing yet. `lease` is in seconds.

        `wake` is called when a holder is new; `closed` is set when all claimed events are returned.
        """
        self._dsn = dsn
        self._consumer = consumer
        self._queues = queues
        self._lease = lease
        self._wake = wake
        self._until: dict[int, float] = {}  # the end of each holder's lease, by boottime()
        self._numbers: dict[str, int] = {}
        self._client: Client | None = None
        self._poke = Wakeup()
        self._error: Exception | None = None  # that repeating does not solve
        self.processes = 1  # that share the consumer, at the last renewal
        self.kept: list[int] = []  # tokens of claims that close() does not return
        self._closing = False
        self._told = False  # it was logged that leases cannot be renewed
        self._closed = closed

    def start(self) -> None:
        """Start the thread; raises as start_thread."""
        self._poke.open()
        start_thread(threading.Thread(target=self._run, name="pgqpy-leases", daemon=True))

    def number(self, queue: str) -> int | None:
        """Return the holder to claim for; None: there is none now."""
        found = self._numbers.get(queue)
        return found if found is not None and self.holds(found) else None

    def holds(self, number: int) -> bool:
        """Whether the lease of a holder goes on, as far as this process knows."""
        return boottime() < self._until.get(number, -math.inf)

    def numbers(self) -> list[int]:
        """Return the holders of all queues, whatever their leases are."""
        return list(self._numbers.values())

    def check(self) -> None:
        """Raise the error that ended the thread, or that of a queue, such as ConsumerNotFound."""
        if self._error is not None:
            raise self._error

    def lost(self, number: int) -> None:
        """Note that the server has ended the lease of a holder."""
        self._until.pop(number, None)
        self._poke.set()

    def close(self) -> None:
        """Let the thread return the claimed events, disconnect and end."""
        self._closing = True
        self._poke.set()

    def files(self) -> list[int]:
        """Return the descriptors that a forked child must not use."""
        client = self._client
        if client is None or client.connection.closed:
            return []
        return [client.connection.fileno()]

    def _run(self) -> None:
        try:
            while not self._closing:
                self._poke.reset()
                seconds = self._lease / BEATS if self._beat() else PAUSE
                # The end of the session ends all claims: so it is seen at once.
                self._poke.wait(seconds, *self.files())
            self._return_all()
        except Exception as error:  # noqa: BLE001  # without the thread, nothing can be claimed
            self._error = RuntimeError(f"no thread renews the leases: {describe(error)}")
            self._error.__cause__ = error
            self._wake()
        finally:
            self._disconnect()
            self._poke.close()
            self._closed.set()

    def _beat(self) -> bool:
        """Renew the leases, and become the holder where this process is none; False on failure."""
        try:
            for queue in self._queues:
                self._hold(queue)
        except (ConsumerNotFound, ConsumerDetached, QueueNotFound, WrongMode) as error:
            self._error = error
            self._wake()
        except (psycopg.Error, PgqError) as error:
            self._disconnect()
            if not self._told:
                text = "consumer %s: its leases cannot be renewed, tries again: %s"
                logger.warning(text, self._consumer, describe(error))
            self._told = True
            return False
        self._told = False
        return True

    def _hold(self, queue: str) -> None:
        began, number = boottime(), self._numbers.get(queue)
        client = self._connected()
        with breaking_off(client.connection, self._lease / BEATS):
            if number is not None:
                processes = client.call(inflight.renew(number, self._lease))
                if processes is not None:
                    self._until[number] = began + self._lease
                    self.processes = processes
                    return
                self._until.pop(number, None)
            keeps_session = client.connection.prepare_threshold is not None  # no pooler
            call = inflight.hold(
                queue, self._consumer, _name(), self._lease, keeps_session=keeps_session
            )
            number = client.call(call)
        self._until[number] = began + self._lease
        self._numbers[queue] = number
        self._wake()

    def _return_all(self) -> None:
        """Return the claimed events now; otherwise the end of the session or lease returns them."""
        with suppress(psycopg.Error, PgqError):
            client = self._connected()
            with breaking_off(client.connection, CLOSING):
                for number in self._numbers.values():
                    client.call(inflight.release_holder(number, self.kept or None))

    def _connected(self) -> Client:
        if self._client is None:
            timeout = f"{1000 * self._lease / BEATS:.0f}ms"
            settings = {**PINNED, "statement_timeout": timeout, "idle_session_timeout": "0"}
            name = f"pgqpy leases of {self._consumer}"
            self._client = connect_as_tool(
                self._dsn,
                settings,
                any_session=True,
                fallback_application_name=name,
                connect_timeout=max(2, math.ceil(self._lease / BEATS)),  # seconds
            )
        return self._client

    def _disconnect(self) -> None:
        if self._client is not None:
            self._client.connection.close()
            self._client = None


def _name() -> str:
    return f"{printable(socket.gethostname())[:HOST_LENGTH]}:{os.getpid()}"
