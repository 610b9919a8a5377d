"""Worker processes of one shared consumer: throughput, claims, takeover, idle cost."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import psycopg

import pgqpy
from benchmarks.figures import interleave, ratio, verify
from benchmarks.load.children import child, module
from benchmarks.report import Section, Table, at_least, at_most, paragraphs

if TYPE_CHECKING:
    from benchmarks.bench import Bench
    from benchmarks.figures import Figure
    from benchmarks.load.children import Child
    from benchmarks.report import Cell

TITLE = "Workers: processes that share a consumer"
QUEUE = "bench"
NUMBERS = (1, 2, 4, 8)
WAIT = 0.005  # seconds
PATIENCE = 600  # seconds
POLL = 0.05  # seconds
CHUNK = 10_000  # events of one statement
KEYS = 1000
# A shared worker has a lock of its run too, which does not count here.
LOCKS = """select count(*) from pg_locks l where locktype = 'advisory' and granted
    and (classid = 7366514 or classid = 7366516 and not exists (select from pg_locks own
        where own.pid = l.pid and own.classid = 7366514 and own.mode = 'ExclusiveLock'))"""
TAKE = "select batch_id from pgq.take_part(%s, 'claims', %s, %s, null, '1 minute')"
OWN = """select pg_advisory_lock(7366514, sub_id) from pgq.registration
    join pgq.consumer on co_id = sub_consumer where co_name = 'claims.' || %s"""
SLOW, PLAIN, ONE, FOUR = "5 ms, workers: {}", "plain, no-op", "1 worker, no-op", "4 workers, no-op"
SMALL_PLAIN, SMALL = "plain, ticks of 1 event", "1 worker, ticks of 1 event"
NOTES = """
Each worker is a process. It runs before the events are ticked; the time goes from the tick to the
last handler's end; ticks of one event are there before, and the time goes from the first to the
last handler. Number and sum of the events are checked. No-op: one transaction of {large:,}
events. 5 ms: one transaction of {per:,} events for each worker. Ticks of one event: {ticks:,}.

Server and workers share the cores of this machine: four no-op workers need more than two cores to
be faster than one.

Claims: threads with a session each call take_part and finish_batch for ranges without events.
"""


def run(bench: Bench) -> Section:
    """Measure throughput, claims, a takeover, and an idle worker."""
    per = bench.pick(smoke=40, default=2000, long=10_000)
    large = bench.pick(smoke=5000, default=1_000_000, long=1_000_000)
    ticks = bench.pick(smoke=50, default=2000, long=10_000)
    dsn = bench.pgqpy_database()
    with pgqpy.connect(dsn) as client:
        client.create_queue(QUEUE)
    numbers = bench.pick(smoke=NUMBERS[:2], default=NUMBERS, long=NUMBERS)
    share = partial(handle, dsn)
    contestants = {
        **{SLOW.format(n): partial(share, [per * n], workers=n, wait=WAIT) for n in numbers},
        PLAIN: partial(share, [large], workers=0),
        ONE: partial(share, [large], workers=1),
        FOUR: partial(share, [large], workers=4),
        SMALL_PLAIN: partial(share, [1] * ticks, workers=0),
        SMALL: partial(share, [1] * ticks, workers=1),
    }
    found = interleave(contestants, bench.rounds, bench.say)
    sessions = bench.pick(smoke=(1, 4), default=(1, 8, 64), long=(1, 8, 64))
    claimed = interleave(
        {
            str(n): partial(claims, dsn, n, bench.pick(smoke=50, default=4000, long=20_000))
            for n in sessions
        },
        bench.rounds,
        bench.say,
    )
    once = interleave({"takeover": partial(takeover, dsn)}, bench.rounds, bench.say)["takeover"]
    idle = silence(dsn, bench.pick(smoke=2.0, default=20.0, long=60.0))
    rows: list[list[Cell]] = [[name, figure] for name, figure in found.items()]
    return Section(
        "workers",
        TITLE,
        [
            Table("Handled", ["", "rate"], rows, "events/s"),
            Table("Claims", ["workers", "rate"], [[n, f] for n, f in claimed.items()], "claims/s"),
            Table(
                "A killed worker's batch, in another worker",
                ["", "after"],
                [["SIGKILL", once]],
                "s",
            ),
            Table("An idle worker", ["", "rate"], [["default settings", idle]], "statements/s"),
        ],
        [
            *(at_least(f"5 ms: {n} workers / {n} x 1", linear(found, n), 0.9) for n in numbers[1:]),
            *(
                at_least(f"{a} / {b}", ratio(found[a], found[b]), 0.8)
                for a, b in ((ONE, PLAIN), (FOUR, PLAIN), (SMALL, SMALL_PLAIN))
            ),
            at_most("a killed worker's batch with an idle one (s)", once.high, 1),
            at_most("statements a second of an idle worker", idle, 2),
        ],
        notes=paragraphs(NOTES.format(per=per, large=large, ticks=ticks)),
    )


def linear(found: dict[str, Figure], number: int) -> float:
    """Return the rate of `number` workers, over `number` times the rate of one."""
    return ratio(found[SLOW.format(number)], found[SLOW.format(1)]) / number


def consumer(dsn: str) -> str:
    """Register a fresh consumer after all events; return its name."""
    with pgqpy.connect(dsn) as client:
        name = f"c{client.insert_event(QUEUE, 'first', None)}"
        client.tick_queue(QUEUE)
        client.register_consumer(QUEUE, name)
    return name


def insert(client: pgqpy.Client, sizes: list[int]) -> int:
    """Insert a transaction for each size, and tick behind each but the last; return the sum.

    Each event has one of a thousand keys.
    """
    number = 0
    for index, size in enumerate(sizes):
        if index:
            client.tick_queue(QUEUE)
        with client.transaction():
            for first in range(number, number + size, CHUNK):
                last = min(first + CHUNK, number + size)
                events = [("t", str(each), f"key {each % KEYS}") for each in range(first, last)]
                client.insert_events(QUEUE, events)
        number += size
    return number * (number - 1) // 2


def handle(
    dsn: str, sizes: list[int], *, workers: int, wait: float = 0, lanes: int | None = None
) -> float:
    """Handle events in worker processes (0: one plain consumer); return the events a second."""
    name, count = consumer(dsn), sum(sizes)
    with ExitStack() as stack:
        client = stack.enter_context(pgqpy.connect(dsn))
        if len(sizes) > 1:
            total = insert(client, sizes)
            client.tick_queue(QUEUE)
        mode = str(lanes or ("shared" if workers else "plain"))
        processes = [start(stack, dsn, name, mode, wait) for _ in range(max(workers, 1))]
        if len(sizes) == 1:
            wait_for_locks(client, 2 * workers or 1)
            total = insert(client, sizes)
            began = time.monotonic_ns()
            client.tick_queue(QUEUE)
        found = wait_for_events(processes, count)
        if len(sizes) > 1:
            began = found[0][2]
    verify("events of the workers", sum(each[0] for each in found), count)
    verify("sum of their numbers", sum(each[1] for each in found), total)
    return count / ((max(each[3] for each in found) - began) / 1e9)


def start(stack: ExitStack, dsn: str, name: str, mode: str, wait: float) -> Child:
    """Start a worker: shared, plain, park, or with so many lanes."""
    return stack.enter_context(child(*module("work", dsn, name, mode, wait)))


def wait_for_locks(client: pgqpy.Client, number: int) -> None:
    """Wait until the workers run: each holds a lock of its own and one of the consumer."""
    deadline = time.monotonic() + PATIENCE
    while client.connection.execute(LOCKS).fetchone() != (number,):
        if time.monotonic() > deadline:
            raise RuntimeError("the workers did not start")
        time.sleep(POLL)


def wait_for_events(processes: list[Child], count: int) -> list[list[int]]:
    """Wait until the processes have seen so many events; return what each found."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = [process.ask("found") for process in processes]
        if sum(each[0] for each in found) >= count or time.monotonic() > deadline:
            return found
        time.sleep(POLL)


def claims(dsn: str, number: int, count: int) -> float:
    """Take and finish `count` ranges in so many sessions; return the claims a second."""
    with ExitStack() as stack:
        client = stack.enter_context(pgqpy.connect(dsn))
        client.register_consumer(QUEUE, "claims")
        sessions = [
            stack.enter_context(psycopg.connect(dsn, autocommit=True)) for _ in range(number)
        ]
        for index, session in enumerate(sessions):
            args = [QUEUE, "claims", str(index)]
            session.execute("select pgq.register_subconsumer(%s, %s, %s)", args)
            session.execute(OWN, [str(index)])
        for _ in range(count):
            client.tick_queue(QUEUE)
        done = [0] * number

        def work(index: int) -> None:
            take = [QUEUE, str(index), f"h{index}"]
            while (batch := sessions[index].execute(TAKE, take).fetchone()) != (None,):
                done[index] += sessions[index].execute(
                    "select pgq.finish_batch(%s)", batch
                ).fetchone() == (1,)

        threads = [threading.Thread(target=work, args=[index]) for index in range(number)]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.monotonic() - began
        client.unregister_consumer(QUEUE, "claims")
    verify("ranges that were claimed", sum(done), count)
    return count / took


def takeover(dsn: str, mode: str = "shared") -> float:
    """Kill a worker in its batch; return the seconds until an idle one handles its event."""
    name = consumer(dsn)
    with ExitStack() as stack:
        client = stack.enter_context(pgqpy.connect(dsn))
        victim = start(stack, dsn, name, mode, PATIENCE)
        wait_for_locks(client, 2)
        client.insert_event(QUEUE, "t", "1")
        client.tick_queue(QUEUE)
        wait_for_events([victim], 1)
        idle = start(stack, dsn, name, mode, 0)
        wait_for_locks(client, 4)
        began = time.monotonic_ns()
        victim.process.kill()
        (found,) = wait_for_events([idle], 1)
    verify("events of the other worker", found[:2], [1, 1])
    return float(found[3] - began) / 1e9


def silence(dsn: str, seconds: float) -> float:
    """Return the statements a second of a worker that has nothing to do."""
    name = consumer(dsn)
    with ExitStack() as stack, pgqpy.connect(dsn) as client:
        worker = start(stack, dsn, name, "shared", 0)
        wait_for_locks(client, 2)
        time.sleep(1)
        before = worker.ask("statements")
        time.sleep(seconds)
        return float(worker.ask("statements") - before) / seconds
