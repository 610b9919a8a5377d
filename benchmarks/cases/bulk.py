"""Inserting many events from Python, a thousand in each transaction."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import psycopg

import pgqpy
from benchmarks import events
from benchmarks.bench import SYNC
from benchmarks.figures import interleave, ratio, ratios, verify
from benchmarks.peers import debian, pgmq, pgqueuer, procrastinate
from benchmarks.report import Section, Table, at_least

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.bench import Bench
    from benchmarks.figures import Figure
    from benchmarks.report import Cell, Target

    Events = list[tuple[str, str]]
    Insert = Callable[[str, Events, int], float]

TITLE = "Bulk insert from Python, transactions of 1,000"
SIZE = 1000  # events a transaction
QUEUE = "bench"
PGQPY, SQL, COPY, PYTHON_PGQ = (
    "pgqpy insert_events",
    "pgqpy SQL insert_events",
    "bare COPY",
    "python-pgq bulk_insert_events",
)
SCALED = 50  # the peers that go event by event get so many times fewer
SYNC_OFF = 5  # so many times fewer where the disk is not waited for
ARRAYS = "select count(*) from pgq.insert_events(%s, %s, %s)"
NOTE = (
    "Events: {}. Every contestant gets the same Python lists, made before the clock starts, into "
    "an empty table; counts and sums of what the table then holds are verified. SQL insert_events: "
    "arrays. pgmq: send_batch; pgqueuer: enqueue with lists; procrastinate: batch_defer; these get "
    "{} times fewer events."
)


def by_client(dsn: str, made: Events, count: int) -> float:
    """Insert by the client's insert_events."""
    with pgqpy.connect(dsn) as client:
        began = time.perf_counter()
        for chunk in events.chunks(made, count, SIZE):
            client.insert_events(QUEUE, chunk)
        return time.perf_counter() - began


def by_arrays(dsn: str, made: Events, count: int) -> float:
    """Insert by the SQL function that takes arrays."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        began = time.perf_counter()
        for chunk in events.chunks(made, count, SIZE):
            types, data = zip(*chunk, strict=True)
            connection.execute(ARRAYS, (QUEUE, list(types), list(data)))
        return time.perf_counter() - began


def by_copy(dsn: str, made: Events, count: int) -> float:
    """Insert by COPY, as psycopg does it."""
    with psycopg.connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
        began = time.perf_counter()
        for chunk in events.chunks(made, count, SIZE):
            with cursor.copy("copy event (ev_type, ev_data) from stdin") as copy:
                for event in chunk:
                    copy.write_row(event)
        return time.perf_counter() - began


def by_python_pgq(dsn: str, _made: Events, count: int) -> float:
    """Insert by python-pgq, in a process of its own that makes the same events."""
    return debian.python_pgq("insert", dsn, count, SIZE)


def by_pgmq(dsn: str, made: Events, count: int) -> float:
    """Insert by the statement of pgmq's client."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        began = time.perf_counter()
        for chunk in events.chunks(made, count, SIZE):
            connection.execute(pgmq.SEND_BATCH, (pgmq.QUEUE, [data for _, data in chunk]))
        return time.perf_counter() - began


def by_pgqueuer(dsn: str, made: Events, count: int) -> float:
    """Insert by pgqueuer's client."""
    with pgqueuer.queries(dsn) as queries:
        began = time.perf_counter()
        for chunk in events.chunks(made, count, SIZE):
            payloads: list[bytes | None] = [data.encode() for _, data in chunk]
            queries.enqueue([pgqueuer.ENTRYPOINT] * len(chunk), payloads, [0] * len(chunk))
        return time.perf_counter() - began


def by_procrastinate(dsn: str, made: Events, count: int) -> float:
    """Insert by procrastinate's client."""
    with procrastinate.task(dsn) as task:
        began = time.perf_counter()
        for chunk in events.chunks(made, count, SIZE):
            task.batch_defer(*procrastinate.arguments(chunk))
        return time.perf_counter() - began


@dataclass(frozen=True)
class Contestant:
    """A way to insert, its table, and the place of an event's data in a row."""

    insert: Insert
    table: str
    data: str = "ev_data"
    scaled: bool = False


ALL = {
    PGQPY: ("pgqpy", Contestant(by_client, "pgq.event_1_0")),
    SQL: ("pgqpy", Contestant(by_arrays, "pgq.event_1_0")),
    COPY: ("bare", Contestant(by_copy, "event")),
    PYTHON_PGQ: ("pgq", Contestant(by_python_pgq, "pgq.event_1_0")),
    "pgmq": ("pgmq", Contestant(by_pgmq, f"pgmq.q_{pgmq.QUEUE}", "message::text", scaled=True)),
    "pgqueuer": (
        "pgqueuer",
        Contestant(by_pgqueuer, "pgqueuer", "convert_from(payload, 'UTF8')", scaled=True),
    ),
    "procrastinate": (
        "procrastinate",
        Contestant(by_procrastinate, "procrastinate_jobs", "args ->> 'data'", scaled=True),
    ),
}
SUMS = 'select count(*), sum(substring({data} from \'"n": "(\\d+)"\')::bigint) from {table}'


def run(bench: Bench) -> Section:
    """Measure each contestant, with and without waiting for the disk."""
    count = bench.pick(smoke=10_000, default=1_000_000, long=10_000_000)
    counts = {True: count, False: count // SYNC_OFF}
    dsns = databases(bench)
    made = events.make(count)
    found = {
        sync: measure(bench, dsns, made, count, sync=sync)
        for sync, count in counts.items()
        if sync or bench.length != "smoke"
    }
    note = NOTE.format(
        ", ".join(f"{count:,} ({SYNC[sync]})" for sync, count in counts.items()), SCALED
    )
    return Section("bulk", TITLE, [rates(found), comparison(found)], targets(found), notes=[note])


def databases(bench: Bench) -> dict[str, str]:
    """Make a database for each peer that takes part."""
    dsn = bench.pgqpy_database()
    with pgqpy.connect(dsn) as client:
        client.create_queue(QUEUE)
    others = {peer for peer, _ in ALL.values() if peer != "pgqpy" and bench.has(peer)}
    return {"pgqpy": dsn, **{peer: bench.peer_database(peer) for peer in others}}


def measure(
    bench: Bench, dsns: dict[str, str], made: Events, count: int, *, sync: bool
) -> dict[str, Figure]:
    """Let the contestants take turns."""
    runs = {
        name: partial(rate, contestant, bench.dsn_with(dsns[peer], sync=sync), made, count)
        for name, (peer, contestant) in ALL.items()
        if peer in dsns
    }
    return interleave(runs, bench.rounds, lambda text: bench.say(f"{text}, {SYNC[sync]}"))


def rate(contestant: Contestant, dsn: str, made: Events, count: int) -> float:
    """Insert into the empty table and check its rows; return events a second."""
    wanted = max(count // SCALED, SIZE) if contestant.scaled else count
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"truncate {contestant.table} cascade".encode())
        took = contestant.insert(dsn, made, wanted)
        query = SUMS.format(data=contestant.data, table=contestant.table)
        found = connection.execute(query.encode()).fetchone()
        verify(f"count and sum of {contestant.table}", found, (wanted, events.total(wanted)))
    return wanted / took


def rates(found: dict[bool, dict[str, Figure]]) -> Table:
    """Return the table of the rates."""
    rows: list[list[Cell]] = [
        [name, *(figures[name] for figures in found.values())] for name in found[True]
    ]
    return Table("Inserted", ["", *(SYNC[sync] for sync in found)], rows, "events/s")


def comparison(found: dict[bool, dict[str, Figure]]) -> Table:
    """Return the table of the ratios of pgqpy's client to the others."""
    rows: list[list[Cell]] = [
        [
            f"{PGQPY} / {name}",
            *(ratios(figures[PGQPY], figures[name]) for figures in found.values()),
        ]
        for name in found[True]
        if name != PGQPY
    ]
    return Table("In the same round", ["", *(SYNC[sync] for sync in found)], rows, "ratio")


def targets(found: dict[bool, dict[str, Figure]]) -> list[Target]:
    """Return the targets, met or missed."""
    return [
        at_least(f"{PGQPY} / {name}, {SYNC[sync]}", ratio(figures[PGQPY], figures[name]), bound)
        for name, bound in {COPY: 0.8, PYTHON_PGQ: 2.0}.items()
        for sync, figures in found.items()
        if name in figures
    ]
