"""Consumers: 1 to 100 on one queue, driven one after the other by one session."""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import TYPE_CHECKING

import pgqpy
from benchmarks.growth.cycle import EVENTS, INSERT, WARM, skip, verified_cycle
from benchmarks.growth.sweep import Costs, Sweep, take_turns, timed
from benchmarks.load.fill import DATA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.bench import Bench

QUEUE = "bench"


def run(bench: Bench) -> Sweep:
    """Measure the cost of an event delivered, and of a batch cycle."""
    sizes = bench.pick(smoke=(1, 5), default=(1, 10, 100), long=(1, 3, 10, 30, 100))
    points = {size: partial(measure, bench, database(bench, size), size) for size in sizes}
    return take_turns(bench, "Consumers on one queue", "consumers", points)


def names(size: int) -> list[str]:
    """Return the consumers' names."""
    return [f"c{number:03}" for number in range(size)]


def database(bench: Bench, size: int) -> str:
    """Return a database with one queue and so many consumers."""
    dsn = bench.pgqpy_database(f"growth_{size}_consumers")
    with pgqpy.connect(dsn) as client:
        client.create_queue(QUEUE)
        for name in names(size):
            client.register_consumer(QUEUE, name)
    return dsn


def measure(bench: Bench, dsn: str, size: int) -> Costs:
    """Deliver the same number of batches, whatever the number of consumers."""
    batches = bench.pick(smoke=5, default=100, long=500)
    with pgqpy.connect(bench.dsn_with(dsn, sync=False)) as client:
        client.tick_queue(QUEUE)
        for name in names(size):
            skip(client, QUEUE, name)
        deliver(client, names(size), 1, WARM)
        small = deliver(client, names(size), 1, 3 * batches)
        large = deliver(client, names(size), EVENTS, batches)
    return {"event delivered (µs)": large / EVENTS, "batch cycle (µs)": small}


def deliver(client: pgqpy.Client, consumers: Sequence[str], events: int, batches: int) -> float:
    """Return the median time of a consumer's cycle, in µs."""
    times: list[float] = []
    for _ in range(max(1, batches // len(consumers))):
        client.connection.execute(INSERT, (QUEUE, DATA, events))
        client.tick_queue(QUEUE)
        cycles = [partial(verified_cycle, client, QUEUE, name, events) for name in consumers]
        times += [timed(cycle) for cycle in cycles]
    return median(times)
