"""The latency from insert_event to the handler; each contestant waits for events in its own way."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import pgqpy
from benchmarks.bench import SYNC
from benchmarks.figures import Figure, ratio
from benchmarks.load import debian
from benchmarks.load.arrive import CONSUMER
from benchmarks.load.children import child, module
from benchmarks.load.cpu import Cpu, process_cpu
from benchmarks.load.latency import Load, Round, measure
from benchmarks.report import Section, Table, Target, at_least, at_most, paragraphs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from benchmarks.bench import Bench
    from benchmarks.report import Cell

TITLE = "Latency from insert_event to the handler, default settings"

QUEUE = "bench"
RATES = (100, 2000)  # events/s
PEERS = ("pgmq", "pgqueuer")
P50, P99 = 5.0, 10.0  # milliseconds
REACHED = 0.9  # of the rate
COLUMNS = [
    "events/s in",
    "events/s out",
    "insert late p99",
    "p50",
    "p90",
    "p99",
    "max",
    "ticker CPU",
]
NOTES = """
Two producer processes insert events of 200 bytes, one a transaction, on an absolute schedule. An
event's latency begins just before its insert is called and ends where the handler begins, by one
clock. Every event is checked to have arrived, once.

pgqpy: the real ticker and a Consumer, default settings. pgmq: read_with_poll with its default
interval. pgqueuer: its queue manager, which listens. PGQ in C: pgqd and python3-pgq, default
settings, one round.

Where events/s out is below events/s in, the consumer fell behind: its latency is what it was when
the producers stopped, and grows with the length of the run.
"""


class Setting(NamedTuple):
    """The contestant, durability and rate of a round."""

    peer: str
    sync: bool
    rate: int


def run(bench: Bench) -> Section:
    """Measure every contestant at each rate, durable and not."""
    contestants = ["pgqpy", *(peer for peer in PEERS if bench.has(peer))]
    rates = bench.pick(smoke=RATES[:1], default=RATES, long=RATES)
    syncs = [True] if bench.length == "smoke" else SYNC
    dsns = {peer: prepare(bench, peer) for peer in contestants}
    found: dict[Setting, list[Round]] = {}
    for number in range(bench.rounds):
        first = number % len(contestants)
        for sync, rate in product(syncs, rates):
            for peer in contestants[first:] + contestants[:first]:
                setting = Setting(peer, sync, rate)
                bench.say(f"round {number + 1} of {bench.rounds}, {peer}, {setting_text(setting)}")
                found.setdefault(setting, []).append(one(bench, dsns[peer], setting))
    if bench.has("pgq") and debian.has_pgqd() and bench.length != "smoke":
        for rate in rates:
            setting = Setting("PGQ in C", sync=True, rate=rate)
            bench.say(f"PGQ in C, {setting_text(setting)}")
            found[setting] = [pgq(bench, rate)]
    return Section("latency", TITLE, tables(found), targets(found), notes=paragraphs(NOTES))


def setting_text(setting: Setting) -> str:
    """Return a round's setting as text."""
    return f"{setting.rate:,} events/s, {SYNC[setting.sync]}"


def prepare(bench: Bench, peer: str) -> str:
    """Return a database in which the contestant has its queue."""
    if peer != "pgqpy":
        return bench.peer_database(peer)
    dsn = bench.pgqpy_database("latency")
    with pgqpy.connect(dsn) as client:
        client.create_queue(QUEUE)
        client.register_consumer(QUEUE, CONSUMER)
    return dsn


def one(bench: Bench, dsn: str, setting: Setting) -> Round:
    """Run one round, with the contestant's processes."""
    durable = bench.dsn_with(dsn, sync=setting.sync)
    seconds = bench.pick(smoke=1.0, default=3.5, long=20.0)
    load = Load(setting.peer, durable, QUEUE, setting.rate, seconds)
    with ExitStack() as stack:
        cpu: Callable[[], Cpu] = lambda: Cpu(lambda: 0)  # noqa: E731  # there is no ticker
        if setting.peer == "pgqpy":
            ticker = stack.enter_context(bench.ticker(dsn))
            cpu = lambda: process_cpu(ticker)  # noqa: E731  # as above
        consumer = stack.enter_context(child(*module("arrive", setting.peer, durable, QUEUE)))
        return measure(load, consumer, cpu)


def pgq(bench: Bench, rate: int) -> Round:
    """Run PGQ in C as Debian ships it."""
    dsn = bench.peer_database("pgq")
    with pgqpy.connect(dsn) as client:
        client.register_consumer(QUEUE, CONSUMER)
    load = Load("pgq", dsn, QUEUE, rate, bench.pick(smoke=2.0, default=8.0, long=20.0))
    with debian.pgqd(dsn), debian.consumer(dsn, QUEUE, CONSUMER) as consumer:
        return measure(load, consumer, lambda: Cpu(lambda: 0))


def tables(found: Mapping[Setting, list[Round]]) -> list[Table]:
    """Return a table a rate."""
    return [
        Table(
            f"{rate:,} events/s",
            ["", *COLUMNS],
            [
                [f"{setting.peer}, {SYNC[setting.sync]}", *cells(setting, rounds)]
                for setting, rounds in sorted(found.items(), key=lambda item: not item[0].sync)
                if setting.rate == rate
            ],
            unit="ms, CPU in % of a core",
        )
        for rate in sorted({setting.rate for setting in found})
    ]


def cells(setting: Setting, rounds: list[Round]) -> list[Cell]:
    """Return a row's figures; a peer has no ticker whose CPU could be measured."""
    *times, cpu = figures(rounds)
    return [*times, cpu if setting.peer == "pgqpy" else ""]


def figures(rounds: list[Round]) -> list[Figure]:
    """Return each column's value of each round."""
    return [Figure(list(values)) for values in zip(*rounds, strict=True)]


def named(rounds: list[Round]) -> dict[str, Figure]:
    """Return each figure's values by its name."""
    return dict(zip(Round._fields, figures(rounds), strict=True))


def targets(found: Mapping[Setting, list[Round]]) -> list[Target]:
    """Compare with the targets, and with the peers' own waiting modes."""
    return [
        target for setting in found if setting.peer == "pgqpy" for target in judge(found, setting)
    ]


def judge(found: Mapping[Setting, list[Round]], setting: Setting) -> Iterator[Target]:
    """Judge one column of one rate."""
    mine = named(found[setting])
    yield at_most(f"p50 at {setting_text(setting)} (ms)", mine["p50"].median, P50)
    yield at_most(f"p99 at {setting_text(setting)} (ms)", mine["p99"].median, P99)
    for peer in PEERS:
        rounds = found.get(setting._replace(peer=peer))
        if rounds:
            other = named(rounds)
            text = f"of {peer} over ours at {setting_text(setting)}"
            for name in ("p50", "p99"):
                times = ratio(other[name], mine[name])
                yield at_least(f"{name} {text}", times, 1.0, reached(setting, other["rate"]))


def reached(setting: Setting, rate: Figure) -> str:
    """Return a note if a peer's producers did not reach the rate, else an empty text."""
    if rate.median >= REACHED * setting.rate:
        return ""
    return f"its two producers inserted {rate.median:,.0f} events/s: a lighter load than ours"
