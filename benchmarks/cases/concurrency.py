"""Events side by side in one process, and parts of a large batch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pgqpy
from benchmarks.bench import SYNC
from benchmarks.figures import interleave, ratio, ratios
from benchmarks.readers import waiting
from benchmarks.readers.batches import QUEUE, Counting
from benchmarks.report import Section, Table, at_least

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.bench import Bench
    from benchmarks.figures import Figure
    from benchmarks.report import Cell, Target

TITLE = "Concurrency: handlers that wait 5 ms, and parts of a batch"
NUMBERS = (1, 2, 4, 8, 16)
FEW = (1, 2)
LINEAR_UP_TO = 8
PART = 1000  # events
THREADS, TASKS = "pgqpy Consumer, threads", "pgqpy AsyncConsumer, tasks"
WAYS: dict[str, tuple[str, Callable[..., float]]] = {
    THREADS: ("pgqpy", waiting.in_threads),
    TASKS: ("pgqpy", waiting.in_tasks),
    "pgqueuer": ("pgqueuer", waiting.by_pgqueuer),
    "procrastinate": ("procrastinate", waiting.by_procrastinate),
}
FEWER = {"pgqueuer": 40, "procrastinate": 10}  # they need minutes for as many as ours
WHOLE, PARTS = "one part", f"parts of {PART:,}"
NOTE = (
    "Each contestant handles {per:,} events for each of its threads or tasks, procrastinate a "
    "tenth and pgqueuer a fortieth of that; a handler waits for 5 ms. pgqueuer handles as many as "
    "it takes at once (batch_size). Parts: a handler that does nothing, one transaction of "
    "{large:,} events in one batch."
)


def run(bench: Bench) -> Section:
    """Measure each contestant with each number, and a batch with and without parts."""
    per = bench.pick(smoke=20, default=400, long=4000)
    numbers = bench.pick(smoke=FEW, default=NUMBERS, long=NUMBERS)
    large = bench.pick(smoke=5000, default=1_000_000, long=1_000_000)
    syncs = [True] if bench.length == "smoke" else [True, False]
    databases = {peer: database(bench, peer) for peer in wanted_peers(bench)}
    contestants = {
        (name, number): (
            databases[peer],
            partial(way, concurrency=number, count=max(per // FEWER.get(name, 1), 1) * number),
        )
        for name, (peer, way) in WAYS.items()
        if peer in databases
        for number in numbers
    }
    found = {}
    parts = {}
    for sync in syncs:
        runs = {
            f"{name}, {number}": partial(way, bench.dsn_with(dsn, sync=sync))
            for (name, number), (dsn, way) in contestants.items()
        }
        figures = interleave(runs, bench.rounds, say(bench, sync=sync))
        found[sync] = {key: figures[f"{key[0]}, {key[1]}"] for key in contestants}
        dsn = bench.dsn_with(databases["pgqpy"], sync=sync)
        drains = {
            WHOLE: partial(drain, dsn, large, large),
            PARTS: partial(drain, dsn, large, PART),
        }
        parts[sync] = interleave(drains, bench.rounds, say(bench, sync=sync))
    tables = [rates(figures, sync=sync) for sync, figures in found.items()]
    tables.append(of_parts(parts))
    note = NOTE.format(per=per, large=large)
    return Section("concurrency", TITLE, tables, targets(found, parts), notes=[note])


def wanted_peers(bench: Bench) -> list[str]:
    """Return the peers that take part, and pgqpy."""
    peers = {peer for peer, _ in WAYS.values()}
    return ["pgqpy", *(peer for peer in sorted(peers - {"pgqpy"}) if bench.has(peer))]


def database(bench: Bench, peer: str) -> str:
    """Return a fresh database of a peer, or of pgqpy with its queue."""
    if peer != "pgqpy":
        return bench.peer_database(peer)
    dsn = bench.pgqpy_database()
    with pgqpy.connect(dsn) as client:
        client.create_queue(QUEUE)
    return dsn


def drain(dsn: str, count: int, part_size: int) -> float:
    """Handle one batch with a handler that does nothing."""
    return waiting.run(Counting(dsn, name=waiting.fill(dsn, count), part_size=part_size), count)


def say(bench: Bench, *, sync: bool) -> Callable[[str], None]:
    """Return what reports the progress."""
    return lambda text: bench.say(f"{text}, {SYNC[sync]}")


def linearity(figures: dict[tuple[str, int], Figure], name: str, number: int) -> float:
    """Return the rate with `number` side by side, over `number` times the rate of one."""
    return ratio(figures[name, number], figures[name, 1]) / number


def rates(figures: dict[tuple[str, int], Figure], *, sync: bool) -> Table:
    """Return the table of the rates."""
    names = dict.fromkeys(name for name, _ in figures)
    numbers = sorted({number for _, number in figures})
    rows: list[list[Cell]] = [[name, *(figures[name, each] for each in numbers)] for name in names]
    headings = ["", *(f"{number} side by side" for number in numbers)]
    return Table(f"Handled, {SYNC[sync]}", headings, rows, "events/s")


def of_parts(found: dict[bool, dict[str, Figure]]) -> Table:
    """Return the table of a batch with and without parts."""
    rows: list[list[Cell]] = [
        [name, *(figures[name] for figures in found.values())] for name in (WHOLE, PARTS)
    ]
    rows.append(["ratio", *(ratios(each[PARTS], each[WHOLE]) for each in found.values())])
    return Table("One batch", ["", *(SYNC[sync] for sync in found)], rows, "events/s")


def targets(
    found: dict[bool, dict[tuple[str, int], Figure]], parts: dict[bool, dict[str, Figure]]
) -> list[Target]:
    """Return the targets, met or missed."""
    linear = [
        at_least(
            f"{name}: {number} / {number} x 1, {SYNC[sync]}", linearity(figures, name, number), 0.9
        )
        for sync, figures in found.items()
        for name, number in figures
        if name in (THREADS, TASKS) and 1 < number <= LINEAR_UP_TO
    ]
    shares = [
        at_least(f"{PARTS} / {WHOLE}, {SYNC[sync]}", ratio(figures[PARTS], figures[WHOLE]), 0.8)
        for sync, figures in parts.items()
    ]
    return linear + shares
