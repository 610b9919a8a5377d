"""Waits for the server, `stop()` or a timeout, whichever comes first.

psycopg's own `notifies()` can only be interrupted by its timeout. A consumer that waits must also
notice `stop()`, called from another thread or a signal handler, at once: so `stop()` writes into a
socket, and the consumer waits for that one and for the connection's.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from pgqpy.client.waiting import Selector
from pgqpy.errors import ConnectionFailed

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from psycopg import pq


# time.monotonic() stands still while Linux sleeps: a process would think that its lease goes on.
_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def boottime() -> float:
    """Return seconds, for differences. Only Linux has the clock; elsewhere it is monotonic()."""
    return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)


def start_thread(thread: threading.Thread) -> None:
    """Start a thread. Raises ConnectionFailed if the system allows no more threads."""
    try:
        thread.start()
    except RuntimeError as error:
        raise ConnectionFailed(f"this process gets no more threads: {error}") from error


POLL_INTERVAL = 0.8  # seconds, in case a notification is missed


class Wakeup:
    """A wait that `set()` ends, from any thread. It stays set until `reset()` or `close()`."""

    def __init__(self) -> None:
        """Make no sockets yet: `open()` does, in the process that will wait."""
        self.is_set = False
        self._receiver: socket.socket | None = None
        self._sender: socket.socket | None = None

    def open(self) -> None:
        """Make the sockets; a `set()` before counts."""
        receiver, sender = socket.socketpair()
        for end in (receiver, sender):
            end.setblocking(False)  # noqa: FBT003  # the standard library's signature
        self._receiver, self._sender = receiver, sender

    def set(self) -> None:
        """End every wait, now and later; safe in signal handlers, and when done twice."""
        sender = self._sender
        self.is_set = True
        if sender is not None:
            with suppress(OSError):  # full: the wait ends anyway; or closed by the end of run()
                sender.send(b"x")

    def close(self) -> None:
        """Close the sockets and forget that it was set."""
        self._close()
        self.is_set = False

    def abandon(self) -> None:
        """Stay set, and close the sockets without using them: they belong to the parent process."""
        self.is_set = True
        self._close()

    @property
    def file(self) -> int:
        """The descriptor that is readable once it is set, for the wait of another one."""
        return -1 if self._receiver is None else self._receiver.fileno()

    def reset(self) -> None:
        """Forget that it was set. Look at what it told of after this, not before."""
        self.is_set = False
        if self._receiver is not None:
            with suppress(BlockingIOError):  # it was not set
                self._receiver.recv(4096)

    def wait(self, seconds: float, *others: int) -> None:
        """Wait until it is set, one of the other files is readable, or the seconds pass."""
        if self.is_set:
            return
        with Selector() as selector:
            for fd in self._files(others):
                selector.register(fd, selectors.EVENT_READ)
            selector.select(seconds)

    def _files(self, others: Sequence[int]) -> list[int]:
        mine = [] if self._receiver is None else [self._receiver.fileno()]
        return [*mine, *others]

    def _close(self) -> None:
        for end in (self._receiver, self._sender):
            if end is not None:
                end.close()
        self._receiver = self._sender = None


class AsyncWakeup(Wakeup):
    """The same for asyncio."""

    async def wait(self, seconds: float, *others: int) -> None:  # type: ignore[override]  # awaited
        """Wait until it is set, one of the other files is readable, or the seconds pass."""
        if self.is_set:
            return
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        files = self._files(others)
        for fd in files:
            loop.add_reader(fd, readable.set)
        timer = loop.call_later(seconds, readable.set)
        try:
            await readable.wait()
        finally:
            timer.cancel()
            for fd in files:
                loop.remove_reader(fd)


def take_notifications(pgconn: pq.abc.PGconn) -> bool:
    """Read what the server has sent and say whether a notification was among it; never waits.

    OperationalError if the connection is lost.
    """
    pgconn.consume_input()
    taken = False
    while pgconn.notifies() is not None:
        taken = True
    return taken
