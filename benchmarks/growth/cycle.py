"""The parts of one turn of a queue, timed separately: insert, tick, batch cycle."""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.figures import verify
from benchmarks.growth.sweep import Costs, median_time, timed
from benchmarks.load.fill import DATA
from benchmarks.load.walk import cycle

if TYPE_CHECKING:
    import pgqpy

EVENTS = 1000  # in a transaction, when the cost of an event is measured
INSERT = "select count(pgq.insert_event(%s, 'event', %s)) from generate_series(1, %s)"
WARM = 20  # turns that are not counted


def insert_cost(client: pgqpy.Client, queue: str, blocks: int) -> float:
    """Return the time of one insert_event among 1,000 in one call of the server, in µs."""

    def insert() -> None:
        client.connection.execute(INSERT, (queue, DATA, EVENTS))

    insert()
    return median_time([insert] * blocks) / EVENTS


def turn_costs(client: pgqpy.Client, queue: str, name: str, turns: int) -> Costs:
    """Insert an event, tick, take the batch, again and again; return medians in µs."""
    client.tick_queue(queue)
    skip(client, queue, name)
    ticks, cycles = [], []
    for _ in range(WARM + turns):
        client.insert_event(queue, "event", DATA)
        ticks.append(timed(lambda: client.tick_queue(queue)))
        cycles.append(timed(partial(verified_cycle, client, queue, name, 1)))
    return {"tick (µs)": median(ticks[WARM:]), "batch cycle (µs)": median(cycles[WARM:])}


def verified_cycle(client: pgqpy.Client, queue: str, name: str, events: int) -> None:
    """Take the next batch; Wrong unless it has this number of events."""
    found = cycle(client, queue, name)
    verify(f"events of {name}'s batch", found and found[0], events)


def skip(client: pgqpy.Client, queue: str, name: str) -> None:
    """Bring the consumer to the last tick."""
    while cycle(client, queue, name):
        pass
