"""One poll of the database for all viewers, and the stream of what it finds."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from pgqpy.texts import describe

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable

    from pgqpy.watch import Snapshot, Watcher

LINGER = 10.0  # seconds that the poll goes on after the last viewer
QUIET = 15.0  # seconds after which a stream says that it is still there
MOST_STREAMS = 200  # a further one ends the oldest
logger = logging.getLogger(__name__)


class Feed:
    """Polls the database while a page is open, and for LINGER seconds after the last one."""

    def __init__(self, watcher: Watcher, idle: Callable[[], None] = lambda: None) -> None:
        """Share a watcher. `idle` is called when the last viewer has gone."""
        self._watcher = watcher
        self._idle = idle
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._stopped = asyncio.Event()
        self._until = 0.0  # by the loop's clock
        self._streams: dict[object, asyncio.Event] = {}  # the oldest first
        self._texts: dict[Hashable, asyncio.Task[str]] = {}  # made from the last snapshot

    @property
    def last(self) -> Snapshot:
        """What the last poll found."""
        return self._watcher.last

    @property
    def polls(self) -> bool:
        """Whether the poll runs."""
        return self._task is not None and not self._task.done()

    async def snapshot(self) -> Snapshot:
        """Return the last snapshot; the first viewer waits for a new one."""
        self._until = asyncio.get_running_loop().time() + LINGER
        if not self.polls:
            self._task = asyncio.create_task(self._poll())
            await self._changed.wait()
        elif self.last.taken is None and self.last.no_answer is None:
            await self._changed.wait()
        return self.last

    async def follow(self) -> AsyncGenerator[Snapshot | None, None]:
        """Yield each new snapshot; None: still the same after QUIET seconds."""
        ended, me = asyncio.Event(), object()
        if len(self._streams) >= MOST_STREAMS:
            self._streams.pop(next(iter(self._streams))).set()
        self._streams[me] = ended
        try:
            yield await self.snapshot()
            while not ended.is_set() and not self._stopped.is_set():
                changed = self._changed
                yield self.last if await _wait_for(QUIET, changed, ended, self._stopped) else None
        finally:
            self._streams.pop(me, None)

    async def text(self, key: Hashable, make: Callable[[], Awaitable[str]]) -> str:
        """Return a text about the last snapshot: of all who ask for the same, one makes it."""
        task = self._texts.get(key)
        if task is None:
            task = self._texts[key] = asyncio.ensure_future(_call(make))
        return await asyncio.shield(task)

    def forget_texts(self) -> None:
        """Let all texts be made anew: something that they tell was changed.

        Otherwise the stream of a page that shows a change would begin with the text from before it,
        and a button would become another one under the mouse.
        """
        self._texts = {}

    async def stop(self) -> None:
        """End the streams and the poll."""
        self._stopped.set()
        if self._task is not None:
            with suppress(asyncio.CancelledError):
                await self._task

    def stop_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        """End the streams, from a signal handler or another thread."""
        loop.call_soon_threadsafe(self._stopped.set)

    async def _poll(self) -> None:
        """Poll until nobody wants to know. Somebody may come while the session closes."""
        while True:
            try:
                await self._poll_while_wanted()
            finally:
                self._idle()
                await asyncio.to_thread(self._watcher.close)
            if not self._wanted:
                return

    async def _poll_while_wanted(self) -> None:
        while True:
            try:
                await self._poll_once()
            except Exception as exc:  # noqa: BLE001  # the viewers see the last snapshot and its age
                logger.error("the poll of the database failed: %s", describe(exc))  # noqa: TRY400  # one line
                self._publish()
            await _wait_for(self._watcher.pause, self._stopped)
            if not self._wanted:
                return

    async def _poll_once(self) -> None:
        """Show the data before the checks have ended: with many queues these take a second."""
        parts = self._watcher.polls()
        while await asyncio.to_thread(next, parts, None) is not None:
            self._publish()
            if self._stopped.is_set():
                return

    def _publish(self) -> None:
        """Let all who wait have the last snapshot."""
        self._texts = {}
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    @property
    def _wanted(self) -> bool:
        lingers = asyncio.get_running_loop().time() < self._until
        return not self._stopped.is_set() and (bool(self._streams) or lingers)


async def _call(make: Callable[[], Awaitable[str]]) -> str:
    return await make()


async def _wait_for(seconds: float, first: asyncio.Event, *others: asyncio.Event) -> bool:
    """Wait for one of the events; return whether it was the first."""
    waits = [asyncio.ensure_future(event.wait()) for event in (first, *others)]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return first.is_set()
