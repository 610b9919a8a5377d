"""One event a transaction, as producers of applications insert them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import psycopg

import pgqpy
from benchmarks import events, peers, pgbench
from benchmarks.bench import SYNC, one_value
from benchmarks.figures import interleave, ratio, ratios, verify
from benchmarks.report import Section, Table, at_least

if TYPE_CHECKING:
    from benchmarks.bench import Bench
    from benchmarks.figures import Figure
    from benchmarks.report import Cell, Target

TITLE = "insert_event, one event of 200 bytes a transaction"
CLIENTS = (1, 8)
DATA = events.data(17)
PGQPY, QUEUE = "pgqpy", "bench"
INSERT = f"select pgq.insert_event('{QUEUE}', '{events.TYPE}', '{DATA}');"
COUNT = "select count(*) from pgq.event_1"
PEERS = {
    "PGQ in C": "pgq",
    "pgmq": "pgmq",
    "pgqueuer": "pgqueuer",
    "procrastinate": "procrastinate",
    "bare INSERT": "bare",
}
BOUNDS = {"PGQ in C": {True: 0.95, False: 0.95}, "pgmq": {True: 1.2, False: 1.8}}
NOTE = (
    "By pgbench, prepared statements. pgmq and procrastinate get the same text as jsonb, pgqueuer "
    "as bytea; the statements of the last two are those that their clients send. Bare INSERT: a "
    "table with the columns, defaults and index of a queue's."
)
Column = tuple[bool, int]  # synchronous_commit, clients
Found = dict[Column, dict[str, "Figure"]]


@dataclass
class Contestant:
    """A database and a statement that inserts one event."""

    dsn: str
    statement: str
    count: str
    inserted: int = 0

    def run(self, bench: Bench, column: Column, seconds: float) -> float:
        """Insert with some clients for some seconds; return events a second."""
        sync, clients = column
        dsn = bench.dsn_with(self.dsn, sync=sync)
        found = pgbench.run(bench.server, dsn, self.statement, clients=clients, seconds=seconds)
        self.inserted += found.transactions
        return found.tps

    def verify(self, name: str) -> None:
        """Raise Wrong unless there are as many events as transactions."""
        with psycopg.connect(self.dsn) as connection:
            verify(f"{name}'s events", one_value(connection, self.count), self.inserted)


def run(bench: Bench) -> Section:
    """Measure each contestant with 1 and 8 clients, with and without waiting for the disk."""
    contestants = make(bench)
    found = {column: measure(bench, contestants, column) for column in columns(bench)}
    for name, contestant in contestants.items():
        contestant.verify(name)
    tables = [rates(found), comparison(found)]
    return Section("insert", TITLE, tables, targets(found), notes=[NOTE])


def columns(bench: Bench) -> list[Column]:
    """Return what is measured, a column each."""
    if bench.length == "smoke":
        return [(False, 8)]
    return [(sync, clients) for sync in SYNC for clients in CLIENTS]


def make(bench: Bench) -> dict[str, Contestant]:
    """Make a database for each contestant."""
    dsn = bench.pgqpy_database()
    with pgqpy.connect(dsn) as client:
        client.create_queue(QUEUE)
    found = {PGQPY: Contestant(dsn, INSERT, COUNT)}
    for name, peer in PEERS.items():
        if bench.has(peer):
            module = peers.load(peer)
            dsn = bench.peer_database(peer)
            found[name] = Contestant(dsn, module.insert(DATA), module.COUNT)
    return found


def measure(bench: Bench, contestants: dict[str, Contestant], column: Column) -> dict[str, Figure]:
    """Let the contestants take turns in one column."""
    seconds = bench.pick(smoke=1, default=2, long=10)
    runs = {
        name: partial(contestant.run, bench, column, seconds)
        for name, contestant in contestants.items()
    }
    at = title(column)
    return interleave(runs, bench.rounds, lambda text: bench.say(f"{text}, {at}"))


def title(column: Column) -> str:
    """Return a column's heading."""
    sync, clients = column
    return f"{clients} {'client' if clients == 1 else 'clients'}, {SYNC[sync]}"


def rates(found: Found) -> Table:
    """Return the table of the rates."""
    names = next(iter(found.values()))
    rows: list[list[Cell]] = [[name, *(f[name] for f in found.values())] for name in names]
    return Table("Inserted", ["", *map(title, found)], rows, "events/s")


def comparison(found: Found) -> Table:
    """Return the table of the ratios of pgqpy to the others."""
    names = next(iter(found.values()))
    rows: list[list[Cell]] = [
        [f"pgqpy / {name}", *(ratios(f[PGQPY], f[name]) for f in found.values())]
        for name in names
        if name != PGQPY
    ]
    return Table("In the same round", ["", *map(title, found)], rows, "ratio")


def targets(found: Found) -> list[Target]:
    """Return the targets, met or missed."""
    bounds = [
        (column, name, bound)
        for name, by_sync in BOUNDS.items()
        for column in found
        for bound in [by_sync[column[0]]]
        if name in found[column]
    ]
    return [
        at_least(
            f"pgqpy / {name}, {title(column)}",
            ratio(found[column][PGQPY], found[column][name]),
            bound,
        )
        for column, name, bound in bounds
    ]
