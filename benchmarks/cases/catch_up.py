"""A consumer with a large backlog catches up while producers go on."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, NamedTuple

import pgqpy
from benchmarks import pgbench
from benchmarks.figures import Figure, Wrong, percentile, ratio, verify
from benchmarks.growth.backlog import MINUTES, PER_TICK
from benchmarks.load.children import child, module
from benchmarks.load.drain import Drained
from benchmarks.load.fill import DATA, Contents, contents, fill, register_at_start
from benchmarks.report import Section, Table, at_least, at_most, paragraphs

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from benchmarks.bench import Bench

TITLE = "Catching up while events come in"

QUEUE, KEEPER = "bench", "keeper"
RATE, CLIENTS = 2000, 8
SCRIPT = f"select pgq.insert_event('{QUEUE}', 'event', '{DATA}');"
SLOWER, SPARE = 2.5, 6.0  # producers run for so many times the unloaded catch-up, and seconds more
LEAD = 1.0  # seconds for which producers run before the consumer starts
BUSY = (sys.executable, "-c", "while True: pass")
NOTES = """
A Consumer with a no-op handler reads a backlog of events of 200 bytes, in ticks of 1,000, from its
first event to its last; the ticker runs. Then again while pgbench inserts 2,000 events/s, one a
transaction, from 8 connections. A producer's latency counts from when the insert was due;
p99 "beside the consumer" is of the time in which it catches up. "Beside a busy loop" is the
control: a process that counts for nothing but one core, and knows no database. Count and sum of
ids are checked.
"""


class Round(NamedTuple):
    """Events/s and milliseconds."""

    calm: float  # consumer alone
    loaded: float  # consumer beside producers
    alone: float  # producers' p99 without the consumer
    busy: float  # producers' p99 beside a process that only keeps a core busy
    beside: float  # producers' p99 while the consumer catches up


def run(bench: Bench) -> Section:
    """Measure consumer and producers, each alone and together."""
    size = bench.pick(smoke=5_000, default=1_000_000, long=10_000_000)
    dsn = prepare(bench, size)
    found = []
    with bench.ticker(dsn):
        for number in range(bench.rounds):
            bench.say(f"round {number + 1} of {bench.rounds}, {size:,} events behind")
            found.append(measure(bench, dsn, f"reader{number}"))
    calm, loaded, alone, busy, beside = (
        Figure(list(values)) for values in zip(*found, strict=True)
    )
    return Section(
        "catch_up",
        TITLE,
        [
            Table(
                f"{size:,} events behind, catching up",
                ["", f"no load, then {RATE:,} events/s", "ratio"],
                [["alone", calm, ""], ["beside producers", loaded, ratio(loaded, calm)]],
                unit="events/s",
            ),
            Table(
                f"Producers' p99 at {RATE:,} events/s",
                ["", "p99", "ratio"],
                [
                    ["alone", alone, ""],
                    ["beside a busy loop", busy, ratio(busy, alone)],
                    ["beside the consumer", beside, ratio(beside, alone)],
                ],
                unit="ms",
            ),
        ],
        [
            at_least("catching up, loaded to unloaded", ratio(loaded, calm), 0.7),
            at_most("producers' p99, with the consumer to without", ratio(beside, alone), 1.5),
        ],
        notes=paragraphs(NOTES),
    )


def prepare(bench: Bench, size: int) -> str:
    """Return a database with a queue that holds the backlog."""
    dsn = bench.pgqpy_database("catch_up")
    with pgqpy.connect(dsn) as client:
        client.create_queue(QUEUE)
        client.register_consumer(QUEUE, KEEPER)
    bench.say(f"filling a queue with {size:,} events")
    fill(bench.dsn_with(dsn, sync=False), QUEUE, [PER_TICK] * (size // PER_TICK))
    return dsn


def measure(bench: Bench, dsn: str, name: str) -> Round:
    """Run one round."""
    calm = catch_up(dsn, name, behind(dsn))
    seconds = bench.pick(smoke=1.0, default=8.0, long=30.0)
    with producing(bench, dsn, seconds) as producers:
        alone = producers.result().latencies()
    with child(*BUSY), producing(bench, dsn, seconds) as producers:
        busy = producers.result().latencies()
    for spare in (SPARE, 5 * SPARE):  # on a busy machine the consumer may start after the producers
        wanted = behind(dsn)
        with producing(bench, dsn, SLOWER * calm.seconds + spare) as producers:
            time.sleep(LEAD)
            loaded = catch_up(dsn, name, wanted)
            log = producers.result().log
        began = loaded.ended - loaded.seconds
        beside = [one.latency for one in log if began <= one.end <= loaded.ended]
        if beside:
            break
    else:
        raise Wrong("no transaction of the producers ended while the consumer caught up")
    return Round(
        calm=calm.events / calm.seconds,
        loaded=loaded.events / loaded.seconds,
        alone=percentile(alone, 99),
        busy=percentile(busy, 99),
        beside=percentile(beside, 99),
    )


def producing(bench: Bench, dsn: str, seconds: float) -> AbstractContextManager[pgbench.Running]:
    """Start producers that insert for some seconds."""
    return pgbench.start(
        bench.server, dsn, SCRIPT, clients=CLIENTS, seconds=seconds, rate=RATE, log=True
    )


def behind(dsn: str) -> Contents:
    """Tick, and return the backlog of a consumer at the first tick."""
    with pgqpy.connect(dsn) as client:
        client.tick_queue(QUEUE)
    return contents(dsn, QUEUE)


def catch_up(dsn: str, name: str, wanted: Contents) -> Drained:
    """Consume the backlog from its first event to its last, and no later event."""
    register_at_start(dsn, QUEUE, name)
    with child(*module("drain", dsn, QUEUE, name, wanted.events)) as reader:
        found = Drained(*reader.result(MINUTES))
    verify("count and sum of the backlog", found[:2], tuple(wanted))
    return found
