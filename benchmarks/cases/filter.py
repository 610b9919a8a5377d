"""A consumer that takes 1 % of a queue's events, beside one whose queue holds only those."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pgqpy
from benchmarks.figures import Figure, interleave, ratio, ratios
from benchmarks.load.fill import DATA, register_at_start
from benchmarks.readers import waiting
from benchmarks.readers.batches import Counting
from benchmarks.report import Section, Table, at_most, paragraphs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.bench import Bench
    from benchmarks.report import Cell

TITLE = "A filter that takes 1 % of the events"

SHARE = 100  # one event in so many is taken
SIZES = (10, 100, 1000)  # events taken in a batch
WANTED = "wanted"
NOTES = """
A Consumer with a no-op handler takes the events of one type from a queue in which each hundredth
event is of that type, by `filter = {"type": ["wanted"]}`. The other queue has only these events.
In both a tick is a batch, with as many events for the consumer. The time is per event taken.
"""


def run(bench: Bench) -> Section:
    """Measure both queues, with small and with large batches."""
    sizes = SIZES[:1] if bench.length == "smoke" else SIZES
    taken = bench.pick(smoke=50, default=10_000, long=100_000)
    found: dict[int, dict[str, Figure]] = {}
    for size in sizes:
        dsn = bench.pgqpy_database(f"filter_{size}")
        for queue, share in (("own", 1), ("filtered", SHARE)):
            bench.say(f"filling the queue {queue} with {taken * share:,} events")
            fill(bench.dsn_with(dsn, sync=False), queue, taken // size, size, share)
        runs = {queue: partial(drain, dsn, queue, taken) for queue in ("own", "filtered")}
        bench.say(f"batches of {size}")
        found[size] = interleave(runs, bench.rounds, bench.say)
    rows: list[list[Cell]] = [
        [f"{size:,} events", each["own"], each["filtered"], ratios(each["filtered"], each["own"])]
        for size, each in found.items()
    ]
    headings = ["a batch", "a queue of its own", "1 % of a queue", "ratio"]
    targets = [
        at_most(
            f"cost, filtered / own, batches of {size:,}", ratio(each["filtered"], each["own"]), 1.5
        )
        for size, each in found.items()
    ]
    table = Table(f"{taken:,} events taken", headings, rows, unit="µs an event")
    return Section("filter", TITLE, [table], targets, notes=paragraphs(NOTES))


def fill(dsn: str, queue: str, ticks: int, size: int, share: int) -> None:
    """Make a queue whose ticks have so many wanted events, one in `share`."""

    def events() -> Iterator[tuple[str, str]]:
        for number in range(size * share):
            yield WANTED if number % share == 0 else "other", DATA

    with pgqpy.connect(dsn) as client:
        client.create_queue(queue)
        client.register_consumer(queue, "keeper")
        for _ in range(ticks):
            client.insert_events(queue, events())
            client.tick_queue(queue)


def drain(dsn: str, queue: str, taken: int) -> float:
    """Take all wanted events of a queue; return the microseconds for each."""
    register_at_start(dsn, queue, "taker")
    # With a limit of its own a consumer that is behind takes no larger batches.
    consumer = Counting(dsn, queue=queue, name="taker", filter={"type": [WANTED]}, min_count=1)
    return 1e6 / waiting.run(consumer, taken)
