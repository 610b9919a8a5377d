"""Consuming a backlog of batches with a handler that does nothing."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pgqpy
from benchmarks import events
from benchmarks.bench import SYNC
from benchmarks.figures import Figure, interleave, ratio, ratios, verify
from benchmarks.readers import batches, single
from benchmarks.report import Section, Table, at_least

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.bench import Bench
    from benchmarks.report import Cell, Target

    Rate = Callable[..., float]  # of (count, *, sync)

TITLE = "Consume from Python, with a handler that does nothing"
QUEUE = batches.QUEUE
TICK = 10_000  # events between two ticks
SYNC_OFF = 2  # so many times fewer events where the disk is not waited for
SCALED = {"SKIP LOCKED": 20, "pgmq": 20, "pgqueuer": 100, "procrastinate": 1000}
PGQPY, ASYNC, PYTHON_PGQ = "pgqpy Consumer", "pgqpy AsyncConsumer", "python-pgq Consumer"
LOOP, BINARY = "bare loop", "bare loop, binary"
TARGETS = [(PGQPY, PYTHON_PGQ, 1.8), (PGQPY, LOOP, 0.8), (ASYNC, LOOP, 0.6)]
BY_BATCH = {
    PGQPY: ("pgqpy", batches.by_consumer),
    ASYNC: ("pgqpy", batches.by_async_consumer),
    LOOP: ("pgqpy", batches.by_loop),
    BINARY: ("pgqpy", batches.by_binary_loop),
    PYTHON_PGQ: ("pgq", batches.by_python_pgq),
}
BY_EVENT = {
    "SKIP LOCKED": ("bare", single.by_skip_locked),
    "pgmq": ("pgmq", single.by_pgmq),
    "pgqueuer": ("pgqueuer", single.by_pgqueuer),
    "procrastinate": ("procrastinate", single.by_procrastinate),
}
NOTE = (
    "Events of 200 bytes: {counts}, with a tick every {tick:,}. The time runs from the first batch "
    "to the last finish, without connecting. Bare loop: "
    "next_batch, select * from get_batch_events, fetchall, finish_batch with psycopg, results as "
    "text (its default) or binary. python-pgq on PGQ in C, in Debian's Python. SKIP LOCKED and "
    "pgmq take {batch} events a transaction, pgqueuer's manager too; procrastinate runs 10 side by "
    "side. These get fewer events: {scaled}."
)


@dataclass
class Source:
    """A queue with ticked events. Every contestant reads it as a consumer of its own."""

    dsn: str
    first: int = 0  # tick
    starts: dict[int, int] = field(default_factory=dict)  # events left after a tick
    names: Iterator[int] = field(default_factory=itertools.count)

    def fill(self, count: int) -> None:
        """Insert events and tick."""
        made = events.make(count)
        with pgqpy.connect(self.dsn) as client:
            for name, value in (("ticker_max_count", "1"), ("ticker_max_lag", "0")):
                client.set_queue_config(QUEUE, name, value)
            left = count
            self.starts[left] = self._tick(client)
            for chunk in events.chunks(made, count, TICK):
                client.insert_events(QUEUE, chunk)
                left -= len(chunk)
                self.starts[left] = self._tick(client)

    def consumer(self, count: int) -> str:
        """Register a consumer with `count` pending events; return its name."""
        name = f"reader{next(self.names)}"
        with pgqpy.connect(self.dsn) as client:
            client.register_consumer_at(QUEUE, name, self.starts[count])
        return name

    def leave(self, name: str) -> None:
        """Unregister a consumer; Wrong if it has pending events."""
        with pgqpy.connect(self.dsn) as client:
            (info,) = client.get_consumer_info(QUEUE, name)
            client.unregister_consumer(QUEUE, name)
        verify(f"last tick of {name}", info.last_tick, self.starts[0])

    def _tick(self, client: pgqpy.Client) -> int:
        client.ticker(QUEUE)
        (info,) = client.get_queue_info(QUEUE)
        return info.last_tick_id or 0


def run(bench: Bench) -> Section:
    """Measure each contestant, with and without waiting for the disk."""
    count = bench.pick(smoke=20_000, default=1_000_000, long=10_000_000)
    counts = {True: count, False: max(count // SYNC_OFF // TICK, 1) * TICK}
    contestants = {**by_batch(bench, count), **by_event(bench)}
    found = {
        sync: measure(bench, contestants, number, sync=sync)
        for sync, number in counts.items()
        if sync or bench.length != "smoke"
    }
    note = NOTE.format(
        counts=", ".join(f"{number:,} ({SYNC[sync]})" for sync, number in counts.items()),
        tick=TICK,
        batch=single.BATCH,
        scaled=", ".join(f"{name} 1/{times}" for name, times in SCALED.items()),
    )
    tables = [rates(found), comparison(found)]
    return Section("consume", TITLE, tables, targets(found), notes=[note])


def by_batch(bench: Bench, count: int) -> dict[str, Rate]:
    """Fill the queues; return the contestants that read batches."""
    bench.say(f"putting {count:,} events into each queue")
    sources = {"pgqpy": Source(bench.pgqpy_database())}
    with pgqpy.connect(sources["pgqpy"].dsn) as client:
        client.create_queue(QUEUE)
    if bench.has("pgq"):
        sources["pgq"] = Source(bench.peer_database("pgq"))
    for source in sources.values():
        source.fill(count)

    def read(
        source: Source, reader: Callable[[str, str, int], float], count: int, *, sync: bool
    ) -> float:
        name = source.consumer(count)
        took = reader(bench.dsn_with(source.dsn, sync=sync), name, count)
        source.leave(name)
        return count / took

    return {
        name: partial(read, sources[peer], reader)
        for name, (peer, reader) in BY_BATCH.items()
        if peer in sources
    }


def by_event(bench: Bench) -> dict[str, Rate]:
    """Return the contestants that read event by event."""

    def read(
        name: str, dsn: str, drain: Callable[[str, int], float], count: int, *, sync: bool
    ) -> float:
        few = max(count // SCALED[name], single.BATCH)
        return few / drain(bench.dsn_with(dsn, sync=sync), few)

    return {
        name: partial(read, name, bench.peer_database(peer), drain)
        for name, (peer, drain) in BY_EVENT.items()
        if bench.has(peer)
    }


def measure(
    bench: Bench,
    contestants: dict[str, Rate],
    count: int,
    *,
    sync: bool,
) -> dict[str, Figure]:
    """Let the contestants take turns."""
    runs = {name: partial(rate, count, sync=sync) for name, rate in contestants.items()}
    return interleave(runs, bench.rounds, lambda text: bench.say(f"{text}, {SYNC[sync]}"))


def rates(found: dict[bool, dict[str, Figure]]) -> Table:
    """Return the table of the rates."""
    rows: list[list[Cell]] = [
        [name, *(figures[name] for figures in found.values())] for name in found[True]
    ]
    return Table("Consumed", ["", *(SYNC[sync] for sync in found)], rows, "events/s")


def comparison(found: dict[bool, dict[str, Figure]]) -> Table:
    """Return the table of the ratios of pgqpy's consumers to the others."""
    rows: list[list[Cell]] = [
        [f"{ours} / {name}", *(ratios(figures[ours], figures[name]) for figures in found.values())]
        for ours in (PGQPY, ASYNC)
        for name in found[True]
        if name not in (PGQPY, ASYNC)
    ]
    return Table("In the same round", ["", *(SYNC[sync] for sync in found)], rows, "ratio")


def targets(found: dict[bool, dict[str, Figure]]) -> list[Target]:
    """Return the targets, met or missed."""
    return [
        at_least(f"{ours} / {name}, {SYNC[sync]}", ratio(figures[ours], figures[name]), bound)
        for ours, name, bound in TARGETS
        for sync, figures in found.items()
        if name in figures
    ]
