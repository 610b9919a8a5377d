"""The cost of an event with and without features that are used per event; delayed events."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pgqpy
from benchmarks.bench import one_value
from benchmarks.cases.latency import QUEUE
from benchmarks.figures import percentile, ratios, verify
from benchmarks.load.arrive import CONSUMER
from benchmarks.load.children import child, module
from benchmarks.load.features import (
    INSERTS,
    LIST,
    LIST_INSERTS,
    PLAIN,
    insert_costs,
    read_costs,
)
from benchmarks.load.latency import collect, verify_once
from benchmarks.report import Section, Table, at_most, paragraphs

if TYPE_CHECKING:
    from benchmarks.bench import Bench
    from benchmarks.load.arrivals import Arrival
    from benchmarks.report import Cell

TITLE = "Features of an event, and events that are due at a time"

OTHER = "other"
RATE = 1000  # due events a second
LEAD = 3.0  # seconds between the insert of events and the time when the first one is due
PATIENCE = 60.0  # seconds
# Each event is due a moment after the one before; the text says when, by the clock of consumers.
DUE = """
    select count(pgq.insert_event_at(%s, to_timestamp(%s) + number * interval '1 second' / %s,
        't', format('%%s %%s -', number, (%s + number * 1e9 / %s)::int8)))
    from generate_series(0, %s - 1) number
"""
FLOOD = """
    select count(*) from pgq.insert_events_at(%s, to_timestamp(%s),
        array_fill('t'::text, array[%s]), array_fill('0 0 flood'::text, array[%s]))
"""
NOTES = """
synchronous_commit is off where events are inserted. A handler does nothing; each batch has 1,000
events. As many delayed events wait as are read, more each round. Lateness is from the due time to
where the consumer's handler begins, by a ticker and a consumer with their default settings. In the
flood, {flood:,} events of a queue are due at one moment; lateness is that of {other} due events a
second in another queue, over the same seconds.
"""


def run(bench: Bench) -> Section:
    """Measure what an insert costs, how late delayed events come, and what a flood does."""
    events = bench.pick(smoke=1000, default=20_000, long=100_000)
    tables = {
        f"Insert {events:,} events, one a transaction": insert_costs(bench, INSERTS, events, 1),
        f"Insert {events:,} events, {LIST:,} a transaction": insert_costs(
            bench, LIST_INSERTS, events, LIST
        ),
        f"Read {events * 2:,} events": read_costs(bench, events * 2),
    }
    seconds = bench.pick(smoke=1, default=15, long=60)
    flood = bench.pick(smoke=1000, default=100_000, long=100_000)
    few = RATE // 10
    late = {
        f"{RATE:,} due events/s": lateness(bench, RATE, seconds),
        f"{few} due events/s": lateness(bench, few, seconds),
        f"{few} due events/s beside the flood": lateness(bench, few, seconds, flood=flood),
    }
    worst = [percentile(times, 99) for times in late.values()]
    return Section(
        "features",
        TITLE,
        [
            *(
                Table(
                    title,
                    ["", "an event", "to plain"],
                    [[name, each, ratios(each, costs[PLAIN])] for name, each in costs.items()],
                    "µs",
                )
                for title, costs in tables.items()
            ),
            Table(
                "Lateness",
                ["", "p50", "p90", "p99", "max"],
                [[name, *_percentiles(times)] for name, times in late.items()],
                "ms",
            ),
        ],
        [
            at_most(f"p99 of lateness at {RATE:,} due events/s (ms)", worst[0], 50),
            at_most("p99 of lateness beside the flood (ms)", worst[2], 250),
        ],
        notes=paragraphs(NOTES.format(flood=flood, other=few)),
    )


def lateness(bench: Bench, rate: int, seconds: int, *, flood: int = 0) -> list[float]:
    """Return how late each event was, in milliseconds, with a flood in another queue or without."""
    bench.say(f"{rate:,} due events/s, a flood of {flood:,}")
    dsn = bench.pgqpy_database()
    total = rate * seconds
    with pgqpy.connect(dsn) as client:
        for name in (QUEUE, OTHER):
            client.create_queue(name)
            client.register_consumer(name, CONSUMER)
        with bench.ticker(dsn), child(*module("arrive", "pgqpy", dsn, QUEUE)) as consumer:
            consumer.ask("count")  # it has started by now
            run = client.connection
            start = time.monotonic_ns() + int((LEAD + total / 20_000 + flood / 50_000) * 1e9)
            epoch = one_value(run, "select extract(epoch from clock_timestamp())::float8")
            epoch += (start - time.monotonic_ns()) / 1e9
            if flood:
                verify("flood", one_value(run, FLOOD, OTHER, epoch + 0.5, flood, flood), flood)
            one_value(run, DUE, QUEUE, epoch, rate, start, rate, total)
            verify("inserted in time", time.monotonic_ns() < start, wanted=True)
            time.sleep((start - time.monotonic_ns()) / 1e9 + seconds)
            found: list[Arrival] = collect(consumer, 0, total, PATIENCE)
            verify_once("delayed events", [number for number, _, _ in found], total)
            waiting = "select count(*) from pgq.delayed_event"
            verify("events that still wait", one_value(run, waiting), 0)
    return [(now - due) / 1e6 for _, due, now in found]


def _percentiles(times: list[float]) -> list[Cell]:
    return [*(percentile(times, percent) for percent in (50, 90, 99)), max(times)]
