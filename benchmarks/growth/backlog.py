"""Backlog: 10,000 to 10 million pending events, read by a Consumer with a no-op handler."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import pgqpy
from benchmarks.figures import verify
from benchmarks.growth.sweep import Costs, Sweep, take_turns
from benchmarks.load.children import child, module
from benchmarks.load.drain import Drained
from benchmarks.load.fill import contents, fill, register_at_start

if TYPE_CHECKING:
    from benchmarks.bench import Bench

PER_TICK = 1000  # events
AT_LEAST = 100_000  # events a point, by reading short backlogs several times
MINUTES = 10 * 60  # seconds that reading one backlog may take at most
NAMES = (f"reader{number}" for number in count())
SIZES = (10_000, 100_000, 1_000_000)


def run(bench: Bench) -> Sweep:
    """Measure the cost of an event, and the consumer's memory."""
    sizes = bench.pick(smoke=(1_000, 2_000), default=SIZES, long=(*SIZES, 10_000_000))
    points = {size: partial(measure, bench, database(bench, size), size) for size in sizes}
    return take_turns(bench, "Backlog", "events behind", points)


def database(bench: Bench, size: int) -> str:
    """Return a database with a queue that holds the backlog; it bears the queue's name."""
    queue = f"behind_{size}"
    bench.say(f"filling a queue with {size:,} events")
    dsn = bench.dsn_with(bench.pgqpy_database(f"growth_{queue}"), sync=False)
    with pgqpy.connect(dsn) as client:
        client.create_queue(queue)
        client.register_consumer(queue, "keeper")
    fill(dsn, queue, [PER_TICK] * (size // PER_TICK))
    return dsn


def measure(bench: Bench, dsn: str, size: int) -> Costs:
    """Read the backlog, a short one several times."""
    times = bench.pick(smoke=1, default=max(1, AT_LEAST // size), long=max(1, AT_LEAST // size))
    found = [read(dsn, f"behind_{size}") for _ in range(times)]
    cost = sum(one.seconds for one in found) * 1e6 / sum(one.events for one in found)
    return {"event consumed (µs)": cost, "peak memory (MB)": max(one.peak for one in found)}


def read(dsn: str, queue: str) -> Drained:
    """Read the whole backlog as a new consumer; Wrong if an event is missing."""
    name, wanted = next(NAMES), contents(dsn, queue)
    register_at_start(dsn, queue, name)
    with child(*module("drain", dsn, queue, name, wanted.events)) as reader:
        found = Drained(*reader.result(MINUTES))
    verify("count and sum of the backlog", found[:2], tuple(wanted))
    return found
