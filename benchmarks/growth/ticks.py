"""Ticks: 10 to 1 million kept for a consumer that does not move, while another consumer works."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pgqpy
from benchmarks.growth.cycle import turn_costs
from benchmarks.growth.sweep import Costs, Sweep, median_time, take_turns

if TYPE_CHECKING:
    from benchmarks.bench import Bench

QUEUE, AHEAD, BEHIND = "bench", "ahead", "behind"
SIZES = (10, 1000, 100_000, 1_000_000)
# As many as a ticker makes in hours, with the last tick's snapshot.
ADD = """
    insert into pgq.tick (tick_queue, tick_id, tick_time, tick_snapshot, tick_event_seq)
    select tick_queue, tick_id + number, tick_time, tick_snapshot, tick_event_seq
    from pgq.tick, generate_series(1, %s) number
    where tick_id = (select max(tick_id) from pgq.tick)
"""
MOVE = "select setval(queue_tick_seq::regclass, (select max(tick_id) from pgq.tick)) from pgq.queue"


def run(bench: Bench) -> Sweep:
    """Measure the consumer at the last tick, the ticker, and the consumer that is behind."""
    sizes = bench.pick(smoke=SIZES[:2], default=SIZES, long=SIZES)
    points = {size: partial(measure, bench, database(bench, size)) for size in sizes}
    return take_turns(bench, "Ticks kept", "ticks", points)


def database(bench: Bench, size: int) -> str:
    """Return a database with a queue that keeps so many ticks."""
    dsn = bench.pgqpy_database(f"growth_{size}_ticks")
    with pgqpy.connect(dsn) as client:
        client.create_queue(QUEUE)
        client.register_consumer(QUEUE, BEHIND)
        client.connection.execute(ADD, (size,))
        client.connection.execute(MOVE)
        client.register_consumer(QUEUE, AHEAD)
    with pgqpy.connect(dsn) as client:
        client.connection.execute("vacuum analyze pgq.tick")
    return dsn


def measure(bench: Bench, dsn: str) -> Costs:
    """Measure both."""
    turns = bench.pick(smoke=50, default=300, long=1000)
    with pgqpy.connect(bench.dsn_with(dsn, sync=False)) as client:
        costs = turn_costs(client, QUEUE, AHEAD, turns)

        def behind() -> None:
            with client.connection.transaction(force_rollback=True):
                client.next_batch(QUEUE, BEHIND)

        return {**costs, "next_batch of the one behind (µs)": median_time([behind] * turns)}
