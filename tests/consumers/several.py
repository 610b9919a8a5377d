"""Consumers over two queues, whose handlers wait where a test wants it."""

from __future__ import annotations

import threading
from typing import Any

from tests.consumers.harness import CONSUMER, QUEUE, Queue, private
from tests.support.waiting import eventually, eventually_async

URGENT = "urgent"
NUMBERS = [f"{number:03}" for number in range(250)]


class Two:
    """Two queues, and the consumer that a test makes for them."""

    def __init__(self, queue: Queue, make: Any) -> None:
        """Take the later queue; make the urgent one."""
        self.normal = queue
        self.urgent = Queue(queue.client, URGENT)
        self.make = make
        self.seen: list[tuple[str, str]] = []
        self.gates: dict[str, threading.Event] = {}
        self.consumer: Any = None

    def start(self, *held: str, by_batch: bool = False, **settings: Any) -> Any:
        """Run a consumer that notes the queue and data of each event, and waits at some."""
        self.gates |= {data: threading.Event() for data in held}
        name, handler = self._handler(by_batch=by_batch)
        members = {"queues": [URGENT, QUEUE], "name": CONSUMER, name: handler, **settings}
        self.consumer = type("Several", (self.make.base,), members)(self.make.dsn)
        return self.make.run(self.consumer)

    def release(self, data: str) -> None:
        """Let the handler of this event go on."""
        self.gates[data].set()

    def _handler(self, *, by_batch: bool) -> tuple[str, Any]:
        name = "process_batch" if by_batch else "process_event"
        handlers = _async_handlers if self.make.asynchronous else _sync_handlers
        return name, handlers(self)[by_batch]

    def note(self, consumer: Any, event: Any) -> threading.Event | None:
        """Note an event; return the gate that its handler is to wait at."""
        self.seen.append((consumer.queue, event.data))
        return self.gates.get(event.data)

    def data(self, queue: str) -> list[str]:
        """Return the data of the events of a queue that were handled, in this order."""
        return [data for name, data in self.seen if name == queue]

    def wait_at(self, data: str) -> None:
        """Wait until a handler has this event."""
        eventually(lambda: data in [each for _, each in self.seen])

    def wait_until_asked(self, queue: int = 0) -> None:
        """Wait until a queue waits for its turn."""
        turns = private(self.consumer, "sources").turns
        eventually(lambda: turns._places[queue].waiting)

    def wait_until_finished(self) -> None:
        """Wait until both queues are empty."""
        self.urgent.wait_until_finished()
        self.normal.wait_until_finished()


def _sync_handlers(two: Two) -> tuple[Any, Any]:
    def process_event(consumer, event, *_connection):
        if (gate := two.note(consumer, event)) is not None:
            assert gate.wait(30)

    def process_batch(consumer, batch, *_connection):
        assert batch.info.queue == consumer.queue
        for event in batch:
            process_event(consumer, event)

    return process_event, process_batch


def _async_handlers(two: Two) -> tuple[Any, Any]:
    async def process_event(consumer, event, *_connection):
        if (gate := two.note(consumer, event)) is not None:
            await eventually_async(gate.is_set)

    async def process_batch(consumer, batch, *_connection):
        assert batch.info.queue == consumer.queue
        async for event in batch:
            await process_event(consumer, event)

    return process_event, process_batch
