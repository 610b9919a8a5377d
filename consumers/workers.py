"""Workers that run a handler for several events side by side: threads, or asyncio tasks."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pgqpy.consumers.handlers import check_result

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from types import TracebackType

    from typing_extensions import Self

    from pgqpy.records import Event


class KeyedEvent(NamedTuple):
    """An event and its key. None is no key: the event waits for no other."""

    event: Event
    key: Hashable


class EventWindow:
    """Fetched events that are not finished. Of one key, one event at a time may run, in order."""

    def __init__(self) -> None:
        self._ready: deque[KeyedEvent] = deque()
        self._followers: dict[Hashable, deque[KeyedEvent]] = {}  # of each key that is ready or runs
        self._unfinished = 0

    def __len__(self) -> int:
        """Return how many events are not finished."""
        return self._unfinished

    @property
    def keys(self) -> list[Hashable]:
        """The keys of these events."""
        return list(self._followers)

    def add(self, event: Event, key: Hashable) -> None:
        """Take an event. TypeError if the key cannot be hashed."""
        item = KeyedEvent(event, key)
        if key is not None and key in self._followers:
            self._followers[key].append(item)
        else:
            if key is not None:
                self._followers[key] = deque()
            self._ready.append(item)
        self._unfinished += 1

    def take(self) -> KeyedEvent | None:
        """Return an event to start now; None if all others wait for one that runs."""
        return self._ready.popleft() if self._ready else None

    def finish(self, item: KeyedEvent) -> None:
        """Forget an event that ran, and let the next one of its key start."""
        self._unfinished -= 1
        if item.key is None:
            return
        followers = self._followers[item.key]
        if followers:
            self._ready.append(followers.popleft())
        else:
            del self._followers[item.key]


logger = logging.getLogger("pgqpy.consumers")


class Outcome(NamedTuple):
    """An event whose handler has ended, and what the handler raised."""

    item: KeyedEvent
    error: BaseException | None


class Workers:
    """Threads that call a handler, each for one event at a time.

    The threads are daemons: a second signal, which must not wait for handlers, ends the process
    while they run. `with` waits for the handlers that run; an interrupted `with` does not.
    """

    def __init__(self, handler: Callable[[Any], Any], number: int) -> None:
        """Start no thread before there is an event for it."""
        self._handler = handler
        self._number = number
        self._threads: list[threading.Thread] = []
        self._todo: queue.SimpleQueue[KeyedEvent | None] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self.running: dict[int, KeyedEvent] = {}  # by the identity of the item

    def __enter__(self) -> Self:
        """Hold no thread yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        """Wait for the handlers that run, and end the threads."""
        if kind is None or issubclass(kind, Exception):
            self.drain()
        for _ in self._threads:
            self._todo.put(None)

    @property
    def free(self) -> bool:
        """Whether another event may start."""
        return len(self.running) < self._number

    def start(self, item: KeyedEvent) -> None:
        """Let a worker handle an event."""
        if len(self._threads) <= len(self.running):
            self._add_thread()
        self.running[id(item)] = item
        self._todo.put(item)

    def _add_thread(self) -> None:
        """Start one more thread. Where the system has no more, go on with those that run."""
        number = len(self._threads) + 1
        thread = threading.Thread(target=self._work, name=f"pgqpy-worker-{number}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            if not self._threads:
                raise
            self._number = len(self._threads)
            text = "no thread for another event (%s): going on with %d side by side"
            logger.warning(text, error, self._number)
        else:
            self._threads.append(thread)

    def wait(self) -> list[Outcome]:
        """Wait until a handler has ended; return all that have."""
        outcomes = [self._ended.get()]
        while not self._ended.empty():
            outcomes.append(self._ended.get())
        for outcome in outcomes:
            del self.running[id(outcome.item)]
        return outcomes

    def drain(self) -> None:
        """Wait for all handlers that run, whatever becomes of their events."""
        while self.running:
            self.wait()

    def _work(self) -> None:
        while (item := self._todo.get()) is not None:
            error: BaseException | None = None
            try:
                check_result(self._handler(item.event))
            except BaseException as raised:  # noqa: BLE001  # run() raises what is no Exception
                error = raised
            self._ended.put(Outcome(item, error))


class AsyncWorkers:
    """Tasks that run a handler, each for one event.

    `async with` waits for the handlers that run; if it was cancelled, it cancels them first.
    """

    def __init__(self, handler: Callable[[Any], Any], number: int) -> None:
        """Start no task yet."""
        self._handler = handler
        self._number = number
        self._ended: asyncio.Queue[Outcome] = asyncio.Queue()
        self._tasks: set[asyncio.Task[BaseException | None]] = set()
        self.running: dict[int, KeyedEvent] = {}

    async def __aenter__(self) -> Self:
        """Hold no task yet."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        """Wait for the handlers that run."""
        if kind is not None and not issubclass(kind, Exception):
            for task in self._tasks:
                task.cancel()
        await self.drain()

    @property
    def free(self) -> bool:
        """Whether another event may start."""
        return len(self.running) < self._number

    def start(self, item: KeyedEvent) -> None:
        """Begin a task that handles an event."""
        self.running[id(item)] = item
        task = asyncio.create_task(self._work(item))
        self._tasks.add(task)
        task.add_done_callback(partial(self._end, item))

    async def wait(self) -> list[Outcome]:
        """Wait until a handler has ended; return all that have."""
        outcomes = [await self._ended.get()]
        while not self._ended.empty():
            outcomes.append(self._ended.get_nowait())
        for outcome in outcomes:
            del self.running[id(outcome.item)]
        return outcomes

    async def drain(self) -> None:
        """Wait for all handlers that run, whatever becomes of their events."""
        while self.running:
            await self.wait()

    async def _work(self, item: KeyedEvent) -> BaseException | None:
        try:
            check_result(await self._handler(item.event))
        except BaseException as raised:  # noqa: BLE001  # run() raises what is no Exception
            return raised
        return None

    def _end(self, item: KeyedEvent, task: asyncio.Task[BaseException | None]) -> None:
        """Note how a task ended. One that is cancelled before it begins has run no line of ours."""
        self._tasks.discard(task)
        error = asyncio.CancelledError() if task.cancelled() else task.result()
        self._ended.put_nowait(Outcome(item, error))
