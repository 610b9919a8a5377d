"""Processes that share a consumer: handlers that wait, a killed process, an empty queue."""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pgqpy
from benchmarks.figures import interleave, ratio, verify
from benchmarks.load.children import child, module
from benchmarks.load.cpu import server_cpu
from benchmarks.readers import waiting
from benchmarks.report import Section, Table, at_least, at_most, paragraphs

if TYPE_CHECKING:
    from benchmarks.bench import Bench
    from benchmarks.figures import Figure
    from benchmarks.load.children import Child
    from benchmarks.report import Cell

TITLE = "Sharing: processes and handlers of one consumer"
QUEUE = "bench"
PROCESSES = (1, 2, 4)
CONCURRENCY = 8
WAIT = 0.010  # seconds
IDLE = 16  # processes
PATIENCE = 600  # seconds
POLL = 0.05  # seconds
HOLDERS = "select count(*) from pgq.holder join pgq.registration on sub_id = holder_sub "
HOLDERS += "join pgq.consumer on co_id = sub_consumer where co_name = %s"
WAYS = {
    "pgqpy Consumer, 8 threads": ("pgqpy", waiting.in_threads),
    "pgqpy AsyncConsumer, 8 tasks": ("pgqpy", waiting.in_tasks),
    "pgqueuer": ("pgqueuer", waiting.by_pgqueuer),
    "procrastinate": ("procrastinate", waiting.by_procrastinate),
}
NOTES = """
Processes: each has {concurrency} handlers that wait for {wait:.0f} ms, and {per:,} events; the time
goes from the insert of all, in one transaction, to the end of the last handler. Number and sum of
the events are checked. One process: handlers that wait for 5 ms, {own:,} events before the start;
pgqueuer and procrastinate get a tenth, and handle as many side by side.

A killed process: it dies by SIGKILL with an event in hand; the time goes to the end of the handler
in another process. An empty queue: the CPU of the whole server, the ticker's part included, with
{idle} processes that have nothing to do.
"""


def run(bench: Bench) -> Section:
    """Measure throughput, a takeover, and silence."""
    per = bench.pick(smoke=100, default=4000, long=40_000)
    own = bench.pick(smoke=100, default=4000, long=40_000)
    dsn = bench.pgqpy_database("sharing")
    with pgqpy.connect(dsn) as client:
        client.create_queue(QUEUE)
    with bench.ticker(dsn):
        runs = {str(number): partial(handle, dsn, number, per) for number in PROCESSES}
        found = interleave(runs, bench.rounds, bench.say)
        peers = interleave(contestants(bench, dsn, own), bench.rounds, bench.say)
        once = interleave({"takeover": partial(takeover, dsn)}, bench.rounds, bench.say)["takeover"]
        idle = silence(bench, dsn)
    rows: list[list[Cell]] = [[f"{name} process(es)", figure] for name, figure in found.items()]
    notes = NOTES.format(concurrency=CONCURRENCY, wait=WAIT * 1000, per=per, own=own, idle=IDLE)
    return Section(
        "sharing",
        TITLE,
        [
            Table(f"Handlers that wait {WAIT * 1000:.0f} ms", ["", "rate"], rows, "events/s"),
            Table("One process", ["", "rate"], [[*row] for row in peers.items()], "events/s"),
            Table("A killed process's event", ["", "after"], [["SIGKILL", once]], "s"),
            Table(f"{IDLE} processes, empty queue", ["", "server"], [["CPU", idle]], "% of a core"),
        ],
        [
            *(
                at_least(f"{number} processes / {number} x 1", linear(found, number), 0.9)
                for number in PROCESSES[1:]
            ),
            at_most("a killed process's event is handled after (s)", once.high, 1),
            at_most(f"server, {IDLE} idle processes (% of a core)", idle, 1),
        ],
        notes=paragraphs(notes),
    )


def contestants(bench: Bench, dsn: str, count: int) -> dict[str, partial[float]]:
    """Return the ways to run handlers side by side in one process."""
    few = max(count // 10, 1)
    return {
        name: partial(
            way,
            dsn if peer == "pgqpy" else bench.peer_database(peer),
            CONCURRENCY,
            count if peer == "pgqpy" else few,
        )
        for name, (peer, way) in WAYS.items()
        if peer == "pgqpy" or bench.has(peer)
    }


def linear(found: dict[str, Figure], number: int) -> float:
    """Return the rate of `number` processes, over `number` times the rate of one."""
    return ratio(found[str(number)], found["1"]) / number


def consumer(dsn: str) -> str:
    """Register a fresh consumer after all events; return its name."""
    with pgqpy.connect(dsn) as client:
        name = f"c{client.insert_event(QUEUE, 'first', None)}"
        client.tick_queue(QUEUE)
        client.register_consumer(QUEUE, name, shared=True)
    return name


def handle(dsn: str, processes: int, per: int) -> float:
    """Handle events in so many processes; return the events a second."""
    name, count = consumer(dsn), processes * per
    with ExitStack() as stack:
        client = stack.enter_context(pgqpy.connect(dsn))
        found = [start(stack, dsn, name, WAIT) for _ in range(processes)]
        wait_for_holders(client, name, processes)
        with client.transaction():
            client.insert_events(QUEUE, (("t", str(number)) for number in range(count)))
        began = time.monotonic_ns()
        ended = wait_for_events(found, count)
    verify("events of the processes", sum(each[0] for each in ended), count)
    verify("sum of their numbers", sum(each[1] for each in ended), count * (count - 1) // 2)
    return count / ((max(each[3] for each in ended) - began) / 1e9)


def start(
    stack: ExitStack, dsn: str, name: str, wait: float, concurrency: int = CONCURRENCY
) -> Child:
    """Start a process of the consumer."""
    return stack.enter_context(child(*module("work", dsn, name, concurrency, wait)))


def wait_for_holders(client: pgqpy.Client, name: str, number: int) -> None:
    """Wait until so many processes may claim."""
    deadline = time.monotonic() + PATIENCE
    while client.connection.execute(HOLDERS, [name]).fetchone() != (number,):
        if time.monotonic() > deadline:
            raise RuntimeError("the processes did not start")
        time.sleep(POLL)


def wait_for_events(processes: list[Child], count: int) -> list[list[int]]:
    """Wait until the processes have handled so many events; return what each found."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = [process.ask("found") for process in processes]
        if sum(each[0] for each in found) >= count or time.monotonic() > deadline:
            return found
        time.sleep(POLL)


def takeover(dsn: str) -> float:
    """Kill a process with an event in hand; return the seconds until another handled it."""
    name = consumer(dsn)
    with ExitStack() as stack:
        client = stack.enter_context(pgqpy.connect(dsn))
        victim = start(stack, dsn, name, PATIENCE, 1)
        wait_for_holders(client, name, 1)
        client.insert_event(QUEUE, "t", "1")
        claimed = "select count(*) from pgq.inflight where run_token > 0"
        while client.connection.execute(claimed).fetchone() == (0,):
            time.sleep(POLL)
        idle = start(stack, dsn, name, 0, 1)
        wait_for_holders(client, name, 2)
        began = time.monotonic_ns()
        victim.process.kill()
        (found,) = wait_for_events([idle], 1)
    verify("events of the other process", found[:2], [1, 1])
    return float(found[3] - began) / 1e9


def silence(bench: Bench, dsn: str) -> float:
    """Return the CPU of the server while many processes have nothing to do."""
    number = bench.pick(smoke=2, default=IDLE, long=IDLE)
    seconds = bench.pick(smoke=1.0, default=20.0, long=60.0)
    name = consumer(dsn)
    with ExitStack() as stack, pgqpy.connect(dsn) as client:
        for _ in range(number):
            start(stack, dsn, name, 0)
        wait_for_holders(client, name, number)
        bench.say(f"silence for {seconds:.0f} s")
        # A heartbeat tells each of them how many they are.
        time.sleep(bench.pick(smoke=1.0, default=15.0, long=15.0))
        server = server_cpu(dsn)
        time.sleep(seconds)
        return server.percent()
