"""Lanes: processes that take turns at the parts of one consumer, with order per key."""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pgqpy
from benchmarks.cases import workers
from benchmarks.cases.workers import QUEUE, WAIT, consumer, handle, start, takeover
from benchmarks.figures import interleave, ratio
from benchmarks.report import Section, Table, at_least, at_most, paragraphs

if TYPE_CHECKING:
    from benchmarks.bench import Bench
    from benchmarks.figures import Figure
    from benchmarks.report import Cell

TITLE = "Lanes: order per key over many processes"
LANES = 8
NUMBERS = (1, 2, 4, 8)
RATE = 2000  # events/s while a process joins
SLOW, PLAIN, TWO = "5 ms, processes: {}", "plain, no-op", "8 lanes in 2 processes, no-op"
NOTES = """
{lanes} lanes by a key, one of a thousand. Otherwise as in the case of workers. 5 ms: one
transaction of {per:,} events for each process. No-op: one of {large:,} events.

Join: one process handles {rate:,} events a second, and another one starts; the time goes from the
moment when it has its locks to its first event.
"""


def run(bench: Bench) -> Section:
    """Measure throughput, a takeover, and a process that joins."""
    per = bench.pick(smoke=40, default=2000, long=10_000)
    large = bench.pick(smoke=5000, default=500_000, long=1_000_000)
    dsn = bench.pgqpy_database()
    with pgqpy.connect(dsn) as client:
        client.create_queue(QUEUE)
    numbers = bench.pick(smoke=NUMBERS[:2], default=NUMBERS, long=NUMBERS)
    share = partial(handle, dsn)
    contestants = {
        **{
            SLOW.format(n): partial(share, [per * n], workers=n, wait=WAIT, lanes=LANES)
            for n in numbers
        },
        PLAIN: partial(share, [large], workers=0),
        TWO: partial(share, [large], workers=2, lanes=LANES),
    }
    found = interleave(contestants, bench.rounds, bench.say)
    seconds = bench.pick(smoke=1.0, default=3.0, long=10.0)
    times = interleave(
        {
            "takeover": partial(takeover, dsn, str(LANES)),
            "join": partial(join, dsn, seconds),
        },
        bench.rounds,
        bench.say,
    )
    rows: list[list[Cell]] = [[name, figure] for name, figure in found.items()]
    return Section(
        "lanes",
        TITLE,
        [
            Table("Handled", ["", "rate"], rows, "events/s"),
            Table(
                "Until another process handles events",
                ["", "after"],
                [["SIGKILL", times["takeover"]], ["join", times["join"]]],
                "s",
            ),
        ],
        [
            *(
                at_least(f"5 ms: {n} processes / {n} x 1", linear(found, n), 0.9)
                for n in numbers[1:]
            ),
            at_least(f"{TWO} / {PLAIN}", ratio(found[TWO], found[PLAIN]), 0.7),
            at_most("a lane of a killed process in another one (s)", times["takeover"].high, 1),
            at_most("a process that joins has events (s)", times["join"].high, 2),
        ],
        notes=paragraphs(NOTES.format(lanes=LANES, per=per, large=large, rate=RATE)),
    )


def linear(found: dict[str, Figure], number: int) -> float:
    """Return the rate of `number` processes, over `number` times the rate of one."""
    return ratio(found[SLOW.format(number)], found[SLOW.format(1)]) / number


def join(dsn: str, seconds: float) -> float:
    """Start a second process under load; return the seconds until it has an event."""
    name, tick = consumer(dsn), 0.05
    with ExitStack() as stack:
        client = stack.enter_context(pgqpy.connect(dsn))
        start(stack, dsn, name, str(LANES), 0)
        workers.wait_for_locks(client, 2)
        late = start(stack, dsn, name, str(LANES), 0)
        began: int | None = None
        ends = time.monotonic() + seconds
        while time.monotonic() < ends or began is None:
            events = [("t", "1", f"key {each}") for each in range(int(RATE * tick))]
            client.insert_events(QUEUE, events)
            client.tick_queue(QUEUE)
            if began is None and client.connection.execute(workers.LOCKS).fetchone() == (4,):
                began = time.monotonic_ns()
            time.sleep(tick)
        (found,) = workers.wait_for_events([late], 1)
    return max(found[2] - began, 0) / 1e9
