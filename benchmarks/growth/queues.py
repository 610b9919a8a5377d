"""Queues: 1 to 1,000 in the database, one of them at work."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pgqpy
from benchmarks.bench import QUEUES
from benchmarks.growth.cycle import insert_cost, turn_costs
from benchmarks.growth.sweep import Costs, Sweep, take_turns

if TYPE_CHECKING:
    from benchmarks.bench import Bench

NAME = "growth"


def run(bench: Bench) -> Sweep:
    """Measure a producer, a tick and a consumer of one queue."""
    sizes = bench.pick(smoke=(1, 10), default=(1, 10, 100, 1000), long=(1, 10, 100, 1000))
    dsns = {size: database(bench, size) for size in sizes}
    points = {size: partial(measure, bench, dsn, size) for size, dsn in dsns.items()}
    return take_turns(bench, "Queues in the database", "queues", points)


def database(bench: Bench, size: int) -> str:
    """Return a database with so many queues."""
    if size == len(QUEUES):
        return bench.thousand()
    dsn = bench.pgqpy_database(f"growth_{size}_queues")
    with pgqpy.connect(dsn) as client:
        for queue in QUEUES[:size]:
            client.create_queue(queue)
    return dsn


def measure(bench: Bench, dsn: str, size: int) -> Costs:
    """Measure the queue in the middle."""
    queue = QUEUES[size // 2]
    with pgqpy.connect(bench.dsn_with(dsn, sync=False)) as client:
        client.register_consumer(queue, NAME)
        try:
            inserts = insert_cost(client, queue, blocks=bench.pick(smoke=5, default=20, long=50))
            turns = bench.pick(smoke=50, default=300, long=1000)
            return {"insert_event (µs)": inserts, **turn_costs(client, queue, NAME, turns)}
        finally:
            client.unregister_consumer(queue, NAME)
