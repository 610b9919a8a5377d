"""The session of a consumer, watched by a thread: its end, and calls of our own that do not end.

The end of the session frees its locks: another process may get the batch at once. A loop whose
handlers run reads nothing from the session, so the thread waits for the end of its connection, and
lets the loop ask before the next event. The loop asks too if there is something to read: unread
notifications can fill the connection's buffers, and its end would then not arrive.

A call of our own that does not end is an outage. lock_timeout ends a wait for a lock. Nothing ends
the wait of a COMMIT for a synchronous standby.
"""

from __future__ import annotations

import logging
import select
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pgqpy.consumers.measures import Outage
from pgqpy.consumers.waiting import start_thread

if TYPE_CHECKING:
    from collections.abc import Iterator


logger = logging.getLogger("pgqpy.consumers")

SLOW = 6.0  # seconds; a wait for a lock has ended by then
SLOW_READ = 60.0  # seconds; the server sorts a batch of millions of events in less
WATCH_INTERVAL = 1.0  # seconds
WHAT = "a call to the database has been running"
# What tells that the server has closed the connection, beside POLLHUP, which is always told: its
# last message may be unread. Only Linux has it.
HUNG_UP: int = getattr(select, "POLLRDHUP", 0)
POLLIN: int = getattr(select, "POLLIN", 0)
REASON = "`pgqpy doctor` says what waits, for a lock or a synchronous standby for example"


class OwnCalls:
    """Watches a session: which calls of our own run, since when, and whether it may have ended."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        self._running: dict[object, tuple[float, float]] = {}  # when it began, and is too slow
        self._closed = threading.Event()
        self.may_have_ended = False  # the session; then another process may have the batch

    @contextmanager
    def running(self, *, reads: bool = False) -> Iterator[None]:
        """Count what is sent in the block as a call; one that reads events may take longer."""
        key, now = object(), time.monotonic()
        self._running[key] = (now, now + (SLOW_READ if reads else SLOW))
        try:
            yield
        finally:
            del self._running[key]

    def outage(self) -> Outage | None:
        """Return since when a call runs, if it takes too long."""
        now = time.monotonic()
        slow = [began for began, limit in list(self._running.values()) if now >= limit]
        return Outage(REASON, min(slow), WHAT) if slow else None

    def watch(self, who: str, socket: int) -> None:
        """Start a thread that logs each outage, once, and notes when to check the session.

        `socket` is that of the connection. Raises as start_thread.
        """
        name, of_whom = "pgqpy-own-calls", (who, socket)
        start_thread(threading.Thread(target=self._watch, args=of_whom, name=name, daemon=True))

    def close(self) -> None:
        """Let the thread end; closing twice is safe."""
        self._closed.set()

    def _watch(self, who: str, socket: int) -> None:
        told: float | None = None
        while not self._wait(socket):
            outage = self.outage()
            if outage is not None and outage.since != told:
                told = outage.since
                logger.warning("%s: %s", who, outage)

    def _wait(self, socket: int) -> bool:
        """Wait for WATCH_INTERVAL, or the end of the session; say whether the watch is closed."""
        if not hasattr(select, "poll"):  # on Windows
            if self._closed.wait(WATCH_INTERVAL):
                return True
            ended, readable = False, bool(select.select([socket], [], [], 0)[0])
        else:
            ended, readable = (
                bool(_poll(socket, HUNG_UP, WATCH_INTERVAL)),
                bool(_poll(socket, POLLIN, 0)),
            )
        if ended or readable:
            self.may_have_ended = True
        return self._closed.wait(WATCH_INTERVAL if ended else 0)


def _poll(socket: int, events: int, seconds: float) -> list[tuple[int, int]]:
    poll = select.poll()
    poll.register(socket, events)
    return poll.poll(seconds * 1000)
