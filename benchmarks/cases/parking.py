"""Parking: what a key whose first event failed costs the other keys."""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pgqpy
from benchmarks.cases.workers import (
    KEYS,
    PATIENCE,
    POLL,
    QUEUE,
    consumer,
    start,
    wait_for_events,
    wait_for_locks,
)
from benchmarks.figures import interleave, ratio, verify
from benchmarks.report import Section, Table, at_least, paragraphs

if TYPE_CHECKING:
    from benchmarks.bench import Bench
    from benchmarks.report import Cell

TITLE = "Parking: a key waits behind its failed event"
HOT = 10  # each tenth event is of the key that fails
BULK = 1000  # events of a transaction
WAIT = 0.001  # seconds
NONE, ONE = "{}, nothing fails", "{}, one key of a tenth of the events is parked"
QUICK, SLOW = "no-op", "1 ms"
NOTES = """
A plain consumer with on_error = "park". The queue has {events:,} events of the other keys, of
which there are {keys:,}; where a key is parked, its events come between them. Handlers do nothing,
or, with a twentieth of the events, wait for 1 ms. A transaction has {bulk:,} events of other keys.
The rate counts the events of the other keys, from the tick to the last handler's end.
"""


def run(bench: Bench) -> Section:
    """Measure the other keys with and without a parked one."""
    events = bench.pick(smoke=2000, default=200_000, long=1_000_000)
    dsn = bench.pgqpy_database()
    with pgqpy.connect(dsn) as client:
        client.create_queue(QUEUE)
    few = events // 20
    contestants = {
        name.format(kind): partial(handle, dsn, number, hot=name == ONE, wait=wait)
        for kind, number, wait in ((QUICK, events, 0.0), (SLOW, few, WAIT))
        for name in (NONE, ONE)
    }
    found = interleave(contestants, bench.rounds, bench.say)
    rows: list[list[Cell]] = [[name, figure] for name, figure in found.items()]
    return Section(
        "parking",
        TITLE,
        [Table("Other keys", ["", "rate"], rows, "events/s")],
        [
            at_least(
                f"{kind}: other keys, one key parked / none",
                ratio(found[ONE.format(kind)], found[NONE.format(kind)]),
                0.9,
            )
            for kind in (QUICK, SLOW)
        ],
        notes=paragraphs(NOTES.format(events=events, keys=KEYS, bulk=BULK)),
    )


def handle(dsn: str, events: int, *, hot: bool, wait: float) -> float:
    """Handle events in a process; return those of the other keys a second."""
    name = consumer(dsn)
    with ExitStack() as stack:
        client = stack.enter_context(pgqpy.connect(dsn))
        process = start(stack, dsn, name, "park", wait)
        wait_for_locks(client, 1)
        for first in range(0, events, BULK):
            numbers = range(first, min(first + BULK, events))
            client.insert_events(QUEUE, _events(numbers, hot=hot))
        began = time.monotonic_ns()
        client.tick_queue(QUEUE)
        (found,) = wait_for_events([process], events)
        verify("events of the other keys", found[0], events)
        verify("sum of their numbers", found[1], events * (events - 1) // 2)
        verify("parked events", count_parked(client, name), events // HOT if hot else 0)
        process.process.terminate()
        process.process.wait()
        client.unregister_consumer(QUEUE, name)
    return events / ((found[3] - began) / 1e9)


def count_parked(client: pgqpy.Client, name: str) -> int:
    """Return how many events are parked when the consumer has finished its batch."""
    deadline = time.monotonic() + PATIENCE
    while client.get_consumer_info(QUEUE, name)[0].current_batch and time.monotonic() < deadline:
        time.sleep(POLL)
    ((number,),) = client.connection.execute("select count(*) from pgq.parked").fetchall()
    return int(number)


def _events(numbers: range, *, hot: bool) -> list[tuple[str, str, str]]:
    found = [("t", str(number), f"key {number % KEYS}") for number in numbers]
    if hot:
        found += [("t", "0", "fails")] * (len(numbers) // HOT)
    return found
