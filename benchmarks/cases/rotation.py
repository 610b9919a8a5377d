"""Rotation under load: no insert waits for it, the disk stays bounded, no event is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pgqpy
from benchmarks import pgbench
from benchmarks.figures import Wrong, percentile, verify
from benchmarks.load.children import child, module, wait_for
from benchmarks.load.fill import DATA
from benchmarks.load.rotations import RotationWatch, watching
from benchmarks.report import Plot, Section, Table, Target, at_least, at_most, paragraphs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.bench import Bench
    from benchmarks.load.children import Answering
    from benchmarks.pgbench import Run, Transaction
    from benchmarks.report import Cell

TITLE = "Rotation under load"

QUEUE, NAME = "bench", "bench"
RATE, CLIENTS = 5000, 8
TABLES = 3  # of a queue
BESIDE = 0.5  # seconds after a switch in which an insert counts as beside it
NEVER = 3600  # seconds
MAINT = 0.5  # seconds between maintenance
WAIT, BOUND = 50.0, 1.2  # milliseconds; most disk late in the run to early
PATIENCE = 60.0  # seconds for what is still to be delivered at the end
SCRIPT = f"select pgq.insert_event('{QUEUE}', 'event', '{DATA}');"
NOTES = """
pgbench inserts events of 200 bytes, one a transaction, from 8 connections, while a Consumer
consumes them and the ticker looks for what to rotate twice a second. synchronous_commit is off: the
disk would hide a wait. The same load without a rotation comes first.

"Longest wait for the ticker" is the longest that any of the connections was seen waiting for a lock
of the ticker's; pg_locks is looked at every 10 ms and says since when. "Longest insert beside a
rotation" is any insert that overlaps the half second after a switch, whatever it waited for.
"""


class Rotated(NamedTuple):
    """One run: pgbench's result, and the waits and sizes seen meanwhile."""

    run: Run
    watch: RotationWatch


def run(bench: Bench) -> Section:
    """Run the load without rotation, then with it."""
    seconds = bench.pick(smoke=5, default=60, long=600)
    period = bench.pick(smoke=1, default=5, long=5)
    bench.say("without rotation")
    calm = load(bench, NEVER, bench.pick(smoke=1, default=15, long=60))
    bench.say(f"a rotation every {period} s, for {seconds} s")
    busy = load(bench, period, seconds)
    wanted = bench.pick(smoke=1, default=seconds // (2 * period), long=seconds // (2 * period))
    if rotations(busy) < wanted:
        raise Wrong(f"{rotations(busy)} rotations in {seconds} s, at least {wanted} were due")
    columns = ["events/s", "p99", "longest insert", "beside a rotation", "wait for the ticker"]
    rows: list[list[Cell]] = [["without rotation", *figures(calm)]]
    rows += [[f"every {period} s", *figures(busy)]]
    table = Table(f"{RATE:,} events/s, {CLIENTS} connections", ["", *columns], rows, "ms")
    disk = [(at, size / 2**20) for at, size in busy.watch.sizes]
    plot = Plot("Disk of the queue's tables", "seconds", "MB", {"pgqpy": disk})
    promised = [
        *targets(busy, [size for at, size in disk if at > TABLES * period]),
        at_least("rotations", rotations(busy), wanted),
    ]
    return Section("rotation", TITLE, [table], promised, [plot], paragraphs(NOTES))


def load(bench: Bench, period: int, seconds: int) -> Rotated:
    """Produce and consume; Wrong unless every event was delivered once."""
    dsn = bench.dsn_with(prepare(bench, period), sync=False)
    with (
        bench.ticker(dsn, "--maint-period", str(MAINT)),
        child(*module("tally", dsn, QUEUE, NAME)) as consumer,
        watching(dsn) as watch,
    ):
        done = pgbench.run(
            bench.server, dsn, SCRIPT, clients=CLIENTS, seconds=seconds, rate=RATE, log=True
        )
        verify_all(consumer, done.transactions)
    return Rotated(done, watch)


def prepare(bench: Bench, period: int) -> str:
    """Return a database with a queue of this rotation period."""
    dsn = bench.pgqpy_database("rotation")
    with pgqpy.connect(dsn) as client:
        client.create_queue(QUEUE)
        client.set_queue_config(QUEUE, "rotation_period", f"{period} seconds")
        client.register_consumer(QUEUE, NAME)
    return dsn


def verify_all(consumer: Answering, total: int) -> None:
    """Raise Wrong unless every event was delivered once: the ids are 1 to `total`."""
    wait_for(consumer, total, PATIENCE)
    verify("events delivered", consumer.ask("count"), total)
    verify("the sum of their ids", consumer.ask("ids"), total * (total + 1) // 2)


def rotations(found: Rotated) -> int:
    """Return how many switches were seen: the first one seen is from before."""
    return len(found.watch.switches) - 1


def figures(found: Rotated) -> list[float]:
    """Return a row's figures."""
    log = found.run.log
    return [
        len(log) / (log[-1].end - log[0].end),
        percentile([took(one) for one in log], 99),
        max(took(one) for one in log),
        max((took(one) for one in log if is_beside(one, found.watch)), default=0.0),
        1000 * found.watch.longest,
    ]


def took(one: Transaction) -> float:
    """Return how long an insert took by itself, in milliseconds."""
    return one.latency - one.late


def is_beside(one: Transaction, watch: RotationWatch) -> bool:
    """Say whether an insert overlaps the time after a switch."""
    start = one.end - took(one) / 1000
    return any(start < at + BESIDE and one.end > at for at in watch.switches[1:])


def targets(found: Rotated, full: list[float]) -> Iterator[Target]:
    """Compare with the targets; `full` is the disk once every table had been filled."""
    half = len(full) // 2
    yield at_most("longest wait of an insert for a rotation (ms)", 1000 * found.watch.longest, WAIT)
    yield at_most("most disk, second half to first", max(full[half:]) / max(full[:half]), BOUND)
