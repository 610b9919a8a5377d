"""Selectors, and bells that end the waits of threads and tasks."""

from __future__ import annotations

import asyncio
import selectors
import threading
from contextlib import suppress

# It needs no file descriptor of its own, where the system has poll().
Selector = getattr(selectors, "PollSelector", selectors.SelectSelector)


class Bell:
    """A bell that one thread waits for, and any other rings."""

    def __init__(self) -> None:
        """Make it silent."""
        self._rung = threading.Event()

    def ring(self) -> None:
        """End the wait, or the next one."""
        self._rung.set()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until it rings, or until the seconds pass; then it is silent again."""
        self._rung.wait(seconds)
        self._rung.clear()


class AsyncBell:
    """A bell that one task waits for, and any thread rings."""

    def __init__(self) -> None:
        """Make it silent, in the running event loop."""
        self._rung = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def ring(self) -> None:
        """End the wait, or the next one."""
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._rung.set)

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until it rings, or until the seconds pass; then it is silent again.

        No asyncio.wait_for: before Python 3.12 it loses a cancellation that comes with the ring.
        """
        timer = None if seconds is None else self._loop.call_later(seconds, self._rung.set)
        try:
            await self._rung.wait()
        finally:
            if timer is not None:
                timer.cancel()
        self._rung.clear()
