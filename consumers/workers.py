"""Workers that call a handler for several pieces of work side by side: threads, or asyncio tasks.

The loop starts work, takes the outcomes, and is woken by a bell when there is one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from pgqpy.consumers.signals import FORKED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pgqpy.consumers.in_hand import Work
    from pgqpy.consumers.waiting import Wakeup

logger = logging.getLogger("pgqpy.consumers")

R = TypeVar("R")


class Outcome(NamedTuple, Generic[R]):
    """Work whose handler has ended: what it returned or raised, and how long it took."""

    work: Work
    result: R | None
    error: BaseException | None
    seconds: float


class Workers(Generic[R]):
    """Threads that call `handle`, each for one piece of work at a time; other work waits.

    They are daemons: a second signal ends the process without waiting for handlers.
    """

    def __init__(self, handle: Callable[[Work], R], number: int, bell: Wakeup) -> None:
        """Start no thread before there is work for it."""
        self._handle = handle
        self._bell = bell
        self._todo: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._ended: deque[Outcome[R]] = deque()
        self._threads = 0
        self.number = number

    def start(self, work: Work, before: int) -> None:
        """Queue work for a thread; `before` is how many other pieces have not ended."""
        if self._threads <= before and self._threads < self.number:
            self._add_thread()
        self._todo.put(work)

    def ended(self) -> list[Outcome[R]]:
        """Return what has ended since the last call."""
        return [self._ended.popleft() for _ in range(len(self._ended))]

    def take_back(self) -> list[Work]:
        """Remove and return the work that no thread has begun."""
        found = []
        with suppress(queue.Empty):
            while True:
                work = self._todo.get_nowait()
                found += [] if work is None else [work]
        return found

    def cancel(self) -> None:
        """End the threads when their handlers return: a thread cannot be cancelled."""
        self.take_back()
        for _ in range(self._threads):
            self._todo.put(None)

    def _add_thread(self) -> None:
        """Start one more thread. Where the system has no more, go on with those that run."""
        name = f"pgqpy-worker-{self._threads + 1}"
        try:
            threading.Thread(target=self._work, name=name, daemon=True).start()
        except RuntimeError as error:
            if not self._threads:
                raise
            self.number = self._threads
            text = "no thread for another handler (%s): going on with %d side by side"
            logger.warning(text, error, self.number)
        else:
            self._threads += 1

    def _work(self) -> None:
        process = os.getpid()
        while (work := self._todo.get()) is not None:
            began = time.perf_counter()
            try:
                outcome = Outcome(work, self._handle(work), None, time.perf_counter() - began)
            except BaseException as error:  # noqa: BLE001  # run() raises what is no Exception
                outcome = Outcome(work, None, error, time.perf_counter() - began)
            if os.getpid() != process:
                logger.error(FORKED)  # the handler has forked, and its child has returned
                return
            self._ended.append(outcome)
            self._bell.set()


class AsyncWorkers(Generic[R]):
    """Tasks that call `handle`, each for one piece of work; other work waits."""

    def __init__(self, handle: Callable[[Work], Awaitable[R]], number: int, bell: Wakeup) -> None:
        """Start no task yet."""
        self._handle = handle
        self._bell = bell
        self._todo: deque[Work] = deque()
        self._ended: deque[Outcome[R]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self.number = number

    def start(self, work: Work, _before: int) -> None:
        """Queue work for a task."""
        self._todo.append(work)
        self._begin()

    def ended(self) -> list[Outcome[R]]:
        """Return what has ended since the last call."""
        return [self._ended.popleft() for _ in range(len(self._ended))]

    def take_back(self) -> list[Work]:
        """Remove and return the work that no task has begun."""
        found = list(self._todo)
        self._todo.clear()
        return found

    def cancel(self) -> None:
        """Cancel the tasks that run."""
        self.take_back()
        for task in list(self._tasks):
            task.cancel()

    def _begin(self) -> None:
        while self._todo and len(self._tasks) < self.number:
            work = self._todo.popleft()
            task = asyncio.create_task(self._work(work))
            self._tasks.add(task)
            task.add_done_callback(self._end)

    async def _work(self, work: Work) -> None:
        began = time.perf_counter()
        result: Any = None
        error: BaseException | None = None
        try:
            result = await self._handle(work)
        except BaseException as raised:  # noqa: BLE001  # run() raises what is no Exception
            error = raised
        self._ended.append(Outcome(work, result, error, time.perf_counter() - began))
        self._bell.set()

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.remove(task)
        self._begin()
