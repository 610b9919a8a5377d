"""One round with keys: events that arrive steadily, handled by workers in the order of keys."""

from __future__ import annotations

import itertools
import random
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

import psycopg

import pgqpy
from benchmarks.figures import percentile, verify
from benchmarks.load.backlog import make_queue
from benchmarks.load.children import POLL, Child, child, module
from benchmarks.load.handle import HOT, SKIP_LOCKED, WORK, Handled
from benchmarks.load.schedule import wait_until
from benchmarks.peers import tables
from benchmarks.readers.claims import QUEUE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

RATE = 100  # events/s
PATIENCE = 60  # seconds for what is still to be handled
BULK = 10_000  # events of a transaction
INSERT = f"select pgq.insert_event('{QUEUE}', 't', %(data)s, %(key)s, null, null, null)"


class Round(NamedTuple):
    """What is handled, and by whom.

    Attributes:
        contestant: of `handle.TURNS`.
        dsn: its database, with the queue in it.
        limit: events of a claim.
        keys: how many keys the events have.
        workers: how many processes handle them.
        seconds: for how long events count.
        warm_up: seconds of events before that.
    """

    contestant: str
    dsn: str
    limit: int
    keys: int
    workers: int
    seconds: float
    warm_up: float


class Latency(NamedTuple):
    """Milliseconds from the begin of an insert to the commit of its handler's transaction."""

    p50: float
    p99: float
    worst: float  # with the events of the warm-up


def make(contestant: str, dsn: str, hot: int = 0) -> None:
    """Make the queue anew, with so many waiting events of one hot key."""
    if contestant == SKIP_LOCKED:
        tables.create(dsn, f"drop table if exists keyed_job; {tables.KEYED}")
        return
    make_queue(dsn, "extra1")
    with pgqpy.connect(dsn) as client:
        for start in range(0, hot, BULK):
            numbers = range(start, min(start + BULK, hot))
            client.insert_events(QUEUE, [("t", f"{number} 0", HOT) for number in numbers])


def measure(load: Round) -> Latency:
    """Insert and handle; Wrong unless each event came once, those of a key in their order."""
    with ExitStack() as stack:
        arguments = (load.contestant, load.dsn, load.limit)
        workers = [
            stack.enter_context(child(*module("handle", *arguments))) for _ in range(load.workers)
        ]
        counted(workers)  # they have started by now
        warm = time.monotonic_ns() + int(load.warm_up * 1e9)
        inserted = produce(load, warm + int(load.seconds * 1e9))
        deadline = time.monotonic() + PATIENCE
        while counted(workers) < inserted and time.monotonic() < deadline:
            time.sleep(POLL)
        found = handled(workers)
    verify_order(found)
    others = [event for event in found if event.key != HOT]
    verify("events that were handled", sorted(event.number for event in others), [*range(inserted)])
    times = [(event.ended - event.inserted) / 1e6 for event in others if event.inserted >= warm]
    worst = max(event.ended - event.inserted for event in others) / 1e6
    return Latency(percentile(times, 50), percentile(times, 99), worst)


def arrivals(start: int, stop: int, dice: random.Random) -> Iterator[int]:
    """Iterate over the times (ns) at which events are due, with exponential gaps."""
    due = start
    while (due := due + int(dice.expovariate(RATE) * 1e9)) < stop:
        yield due


def produce(load: Round, stop: int) -> int:
    """Insert events of random keys from now until `stop` (ns); return how many."""
    dice = random.Random(1)  # the same load for all contestants
    dues = [*arrivals(time.monotonic_ns(), stop, dice)]
    statement = (tables.KEYED_INSERT if load.contestant == SKIP_LOCKED else INSERT).encode()
    with psycopg.connect(load.dsn, autocommit=True) as connection:
        for number, due in enumerate(dues):
            wait_until(due)
            key = f"key {dice.randrange(load.keys)}"
            data = f"{number} {time.monotonic_ns()}"
            connection.execute(statement, {"data": data, "key": key}, prepare=True)
    return len(dues)


def counted(workers: list[Child]) -> int:
    """Return how many events have been handled, without the hot key's."""
    return sum(worker.ask("count") for worker in workers)


def handled(workers: list[Child]) -> list[Handled]:
    """Stop the workers; return what they handled, by the begin of the handlers."""
    with ThreadPoolExecutor(len(workers)) as pool:
        found = pool.map(lambda worker: worker.ask("stop"), workers)
        events = [Handled(*event) for events in found for event in events]
    return sorted(events, key=lambda event: event.started)


def verify_order(events: Iterable[Handled]) -> None:
    """Raise Wrong unless a key's events were handled in their order, one after the other.

    Take the events by the begin of their handlers.
    """
    keys = defaultdict(list)
    for event in events:
        keys[event.key].append(event)
    for key, found in keys.items():
        numbers = [event.number for event in found]
        whole = [*range(len(numbers))] if key == HOT else sorted(numbers)
        verify(f"the order of {key}", numbers, whole)
        together = sum(
            after.started - before.started < WORK * 1e9
            for before, after in itertools.pairwise(found)
        )
        verify(f"events of {key} that were handled at one time", together, 0)
