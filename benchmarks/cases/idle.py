"""The CPU of an idle ticker, and the latency of one active queue among many."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pgqpy
from benchmarks.bench import QUEUES
from benchmarks.load.arrive import CONSUMER
from benchmarks.load.children import child, module
from benchmarks.load.cpu import process_cpu, server_cpu
from benchmarks.load.latency import Load, Round, measure
from benchmarks.report import Section, Table, at_most, paragraphs

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "An idle ticker, with 1 and with 1,000 queues"

QUEUE = "bench"
ACTIVE = QUEUES[len(QUEUES) // 2]
RATE = 100  # events/s
SETTLE = 8.0  # seconds of silence after which the ticker polls slowly
NOTES = """
The default window is as long as the ticker's default maint_period, so that it holds one rotation
and clean-up. "Server" is everything that PostgreSQL's processes spent meanwhile, sessions that
began and ended included. The latency is that of one queue at 100 events/s while 999 are silent;
the ticker has just started then, so that the idle ticks of all the others fall into it.
"""


def run(bench: Bench) -> Section:
    """Measure a database with one queue, and one with many."""
    one, many = single(bench), bench.thousand()
    costs = {"1 queue": silence(bench, one), f"{len(QUEUES):,} queues": silence(bench, many)}
    bench.say("one active queue among many")
    found = active(bench, many)
    (small, _), (large, _) = costs.values()
    return Section(
        "idle",
        TITLE,
        [
            Table(
                "CPU of silence",
                ["", "ticker process", "server"],
                [[name, *cost] for name, cost in costs.items()],
                unit="% of a core",
            ),
            Table(
                f"One queue of {len(QUEUES):,} at {RATE} events/s",
                ["", "p50", "p90", "p99", "max", "ticker CPU (%)"],
                [["pgqpy", found.p50, found.p90, found.p99, found.max, found.cpu]],
                unit="ms",
            ),
        ],
        [
            at_most("ticker process, 1 queue, silence (% of a core)", small, 1),
            at_most(f"ticker process, {len(QUEUES):,} queues, silence (% of a core)", large, 3),
            at_most(f"p99 of one active queue among {len(QUEUES):,} (ms)", found.p99, 25),
        ],
        notes=paragraphs(NOTES),
    )


def single(bench: Bench) -> str:
    """Return a database with one queue."""
    dsn = bench.pgqpy_database("idle")
    with pgqpy.connect(dsn) as client:
        client.create_queue(QUEUE)
        client.register_consumer(QUEUE, CONSUMER)
    return dsn


def silence(bench: Bench, dsn: str) -> tuple[float, float]:
    """Return the CPU of the ticker process and of the server while no event comes."""
    seconds = bench.pick(smoke=2.0, default=30.0, long=120.0)
    with bench.ticker(dsn) as ticker:
        time.sleep(bench.pick(smoke=1.0, default=SETTLE, long=SETTLE))
        bench.say(f"silence for {seconds:.0f} s")
        process, server = process_cpu(ticker), server_cpu(dsn)
        time.sleep(seconds)
        return process.percent(), server.percent()


def active(bench: Bench, dsn: str) -> Round:
    """Return the latency of one queue among many."""
    with pgqpy.connect(dsn) as client:
        client.register_consumer(ACTIVE, CONSUMER)
        try:
            load = Load("pgqpy", dsn, ACTIVE, RATE, bench.pick(smoke=2, default=15, long=60))
            with (
                bench.ticker(dsn) as ticker,
                child(*module("arrive", "pgqpy", dsn, ACTIVE)) as consumer,
            ):
                return measure(load, consumer, lambda: process_cpu(ticker))
        finally:
            client.unregister_consumer(ACTIVE, CONSUMER)
