"""Batches: 1 to 1 million events between two ticks."""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import TYPE_CHECKING

import pgqpy
from benchmarks.figures import verify
from benchmarks.growth.backlog import MINUTES, NAMES
from benchmarks.growth.sweep import Costs, Sweep, take_turns
from benchmarks.load.children import child, module
from benchmarks.load.fill import contents, fill, register_at_start
from benchmarks.load.walk import Walked

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TINY, LARGE = 10, 1000  # events: up to and from
SIZES = (1, 10, 1000, 10_000, 100_000, 1_000_000)
BATCHES = 500  # of the small ones
EVENTS = 100_000  # of the large ones


def run(bench: Bench) -> Sweep:
    """Measure a cycle of tiny batches, an event of large ones, and the reader's memory."""
    sizes = bench.pick(smoke=(1, 10, 1000, 2000), default=SIZES, long=SIZES)
    points = {size: partial(measure, database(bench, size), size) for size in sizes}
    return take_turns(bench, "Events in a batch", "events a batch", points)


def database(bench: Bench, size: int) -> str:
    """Return a database with a queue of such batches."""
    queue = f"batches_{size}"
    bench.say(f"filling a queue with batches of {size:,}")
    dsn = bench.dsn_with(bench.pgqpy_database(f"growth_{queue}"), sync=False)
    with pgqpy.connect(dsn) as client:
        client.create_queue(queue)
        client.register_consumer(queue, "keeper")
    batches = bench.pick(smoke=BATCHES // 10, default=BATCHES, long=BATCHES)
    events = bench.pick(smoke=2000, default=EVENTS, long=EVENTS)
    fill(dsn, queue, [size] * max(1, min(batches, events // size)))
    return dsn


def measure(dsn: str, size: int) -> Costs:
    """Read all batches."""
    queue, name = f"batches_{size}", next(NAMES)
    register_at_start(dsn, queue, name)
    with child(*module("walk", dsn, queue, name)) as reader:
        found = Walked(*reader.result(MINUTES))
    verify(f"count and sum of batches of {size}", found[:2], tuple(contents(dsn, queue)))
    memory = {"peak memory (MB)": found.peak}
    if size <= TINY:
        return {"batch cycle (µs)": median(found.cycles) * 1e6, **memory}
    return {"event (µs)": sum(found.cycles) * 1e6 / found.events, **memory}
