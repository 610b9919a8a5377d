"""One contestant's run while another session holds xmin."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import psycopg

from benchmarks.figures import verify
from benchmarks.load.children import child, module, wait_for
from benchmarks.load.feed import Fed
from benchmarks.load.latency import GET_READY, OVERTIME
from benchmarks.load.schedule import Schedule
from benchmarks.xmin.contestants import QUEUE, held_xmin, maintained, prepare
from benchmarks.xmin.course import Course, course
from benchmarks.xmin.dead import DeadRows, Sample

if TYPE_CHECKING:
    from benchmarks.bench import Bench
    from benchmarks.load.children import Answering

EVENTS, CYCLES = 1000, 100  # a second
WARM_UP = 3.0  # seconds before the beginning
PATIENCE = 60.0  # seconds for what is still to be delivered at the end


def hold(bench: Bench, peer: str, seconds: float, every: float) -> Course:
    """Produce and consume for some time; count dead rows at intervals."""
    dsn = prepare(bench, peer)
    with ExitStack() as stack:
        stack.enter_context(held_xmin(dsn))
        stack.enter_context(maintained(bench, peer, dsn))
        consumer = stack.enter_context(child(*module("cycles", peer, dsn, QUEUE, CYCLES)))
        consumer.ask("count")  # it has started by now
        start = time.monotonic_ns() + int(GET_READY * 1e9)
        warm = start + int(WARM_UP * 1e9)
        schedule = Schedule(start, warm + int(seconds * 1e9), EVENTS)
        producer = stack.enter_context(child(*module("feed", peer, dsn, QUEUE, *schedule)))
        samples = watch(dsn, warm, schedule.stop, every)
        fed = Fed(*producer.result(OVERTIME + PATIENCE))
        found = take(peer, consumer, fed, schedule.total)
        span = (warm // 1_000_000, schedule.stop // 1_000_000)
        missing = schedule.total - len(found["events"])
        return course(found["cycles"], found["events"], span, samples)._replace(missing=missing)


def take(peer: str, consumer: Answering, fed: Fed, total: int) -> dict[str, list[tuple[int, int]]]:
    """Return the consumer's notes; Wrong if an event is missing or came twice.

    A peer may have fallen so far behind that it does not get to the end: that is its result.
    """
    verify(f"{peer}: events inserted", fed.events, total)
    complete = wait_for(consumer, total, PATIENCE)
    found = consumer.ask("take")
    if not complete and peer != "pgqpy":
        return {name: found[name] for name in ("cycles", "events")}
    verify(f"{peer}: events delivered", len(found["events"]), total)
    verify(f"{peer}: the sum of their numbers", found["numbers"], total * (total - 1) // 2)
    return {name: found[name] for name in ("cycles", "events")}


def watch(dsn: str, start: int, stop: int, every: float) -> list[Sample]:
    """Count dead rows from `start` to `stop` (ns)."""
    samples = []
    with psycopg.connect(dsn, autocommit=True) as connection:
        dead_rows = DeadRows(connection)
        while (now := time.monotonic_ns()) < stop:
            samples.append(dead_rows.look((now - start) / 1e9))
            time.sleep(max(0, min(every, (stop - time.monotonic_ns()) / 1e9)))
        return [*samples, dead_rows.look((time.monotonic_ns() - start) / 1e9)]
