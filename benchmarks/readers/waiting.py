"""Handlers that wait for 5 ms, as for another system; each way returns events a second."""

from __future__ import annotations

import asyncio
import time

import pgqpy
from benchmarks import events
from benchmarks.figures import verify
from benchmarks.peers import pgqueuer, procrastinate
from benchmarks.readers.batches import AsyncCounting, Clock, Counting
from pgqpy.consumers import Consumer

WAIT = 0.005  # seconds


class Waiting(Counting):
    """Waits in a thread."""

    def process_event(self, event: object) -> None:
        """Wait, then count."""
        time.sleep(WAIT)
        super().process_event(event)


class AsyncWaiting(AsyncCounting):
    """Waits in a task."""

    async def process_event(self, event: object) -> None:
        """Wait, then count."""
        await asyncio.sleep(WAIT)
        await super().process_event(event)


def run(consumer: Counting | AsyncCounting, wanted: int) -> float:
    """Run a consumer to its last event; return the events a second."""
    consumer.wanted = wanted
    with Clock() as clock:
        if isinstance(consumer, Consumer):
            consumer.run()
        else:
            asyncio.run(consumer.run())
    verify("events that the consumer saw", consumer.seen, wanted)
    return wanted / clock.took


def in_threads(dsn: str, concurrency: int, count: int) -> float:
    """Consume by threads of a Consumer."""
    return run(Waiting(dsn, name=fill(dsn, count), concurrency=concurrency), count)


def in_tasks(dsn: str, concurrency: int, count: int) -> float:
    """Consume by tasks of an AsyncConsumer."""
    return run(AsyncWaiting(dsn, name=fill(dsn, count), concurrency=concurrency), count)


def by_pgqueuer(dsn: str, concurrency: int, count: int) -> float:
    """Drain by its queue manager."""
    with pgqueuer.queries(dsn) as queries:
        queries.enqueue([pgqueuer.ENTRYPOINT] * count, [b"x"] * count, [0] * count)
    seen, took = asyncio.run(pgqueuer.drain(dsn, concurrency, WAIT))
    verify("events that pgqueuer gave", seen, count)
    return count / took


def by_procrastinate(dsn: str, concurrency: int, count: int) -> float:
    """Drain by its own runner."""
    with procrastinate.task(dsn) as task:
        task.batch_defer(*procrastinate.arguments(events.make(count)))
    seen, took = asyncio.run(procrastinate.drain(dsn, concurrency, WAIT))
    verify("events that procrastinate gave", seen, count)
    return count / took


def fill(dsn: str, count: int) -> str:
    """Register a consumer of the queue, with one batch of so many events; return its name."""
    queue = Counting.queue
    with pgqpy.connect(dsn) as client:
        name = f"reader{client.insert_event(queue, 'first', None)}"
        client.tick_queue(queue)
        client.register_consumer(queue, name, shared=True)
        for chunk in events.chunks(events.make(count), count, 10_000):
            client.insert_events(queue, chunk)
        client.tick_queue(queue)
    return name
