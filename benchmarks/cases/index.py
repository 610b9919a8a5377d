"""The index that finds a batch: its cost for producers, its gain for consumers."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg

from benchmarks import events
from benchmarks.bench import one_value
from benchmarks.figures import Figure, interleave, verify
from benchmarks.peers import bare
from benchmarks.report import Plot, Section, Table

if TYPE_CHECKING:
    from benchmarks.bench import Bench
    from benchmarks.report import Cell

TITLE = "The index on ev_txid: B-tree, BRIN or none"
BTREE = "B-tree (a queue's)"
# The smallest range keeps BRIN's reads as short as they can be; and it is summarized just before
# each read, which nobody does for it in a queue: that is the kindest setting.
BRIN = (
    "drop index event_ev_txid_idx; "
    "create index event_brin on event using brin (ev_txid) with (pages_per_range = 8)"
)
CONTESTANTS = {BTREE: "", "BRIN": BRIN, "none": "drop index event_ev_txid_idx"}
TRANSACTION = 1000  # events
READS = 20
COPY = "copy event (ev_type, ev_data) from stdin"
LAST = "select distinct ev_txid from event order by 1 desc limit 1"
READ = "select count(*), sum(ev_id) from event where ev_txid >= {txid} and ev_txid <= {txid}"
NOTE = (
    "COPY in transactions of 1,000 events; a batch is one of them. The batch is read with "
    "sequential scans ruled out where there is an index, as get_batch_events does."
)


def run(bench: Bench) -> Section:
    """Load tables, then read the newest batch from growing ones."""
    count = bench.pick(smoke=10_000, default=200_000, long=1_000_000)
    loads = interleave(
        {name: partial(load, bench, name, count) for name in CONTESTANTS}, bench.rounds, bench.say
    )
    sizes = bench.pick(
        smoke=(1_000, 10_000),
        default=(10_000, 100_000, 1_000_000),
        long=(10_000, 100_000, 1_000_000, 10_000_000),
    )
    reads = {name: growing(bench, name, sizes) for name in CONTESTANTS}
    rows: list[list[Cell]] = [
        [name, loads[name], *(Figure(found) for found in reads[name])] for name in CONTESTANTS
    ]
    columns = ["", "COPY, events/s", *(f"batch of {size:,}, ms" for size in sizes)]
    table = Table("Written and read", columns, rows, "events/s and ms", NOTE)
    series = {
        name: [
            (float(size), Figure(values).median) for size, values in zip(sizes, found, strict=True)
        ]
        for name, found in reads.items()
    }
    title = "Reading the newest 1,000 events"
    plot = Plot(title, "events in the table", "ms", series, log_x=True, log_y=True)
    return Section("index", TITLE, [table], [], [plot])


def make(bench: Bench, name: str) -> psycopg.Connection[Any]:
    """Connect to a fresh database with the table and the contestant's index."""
    connection = psycopg.connect(bench.peer_database("bare", "index"), autocommit=True)
    connection.execute(CONTESTANTS[name].encode())
    return connection


def load(bench: Bench, name: str, count: int) -> float:
    """Copy events into an empty table; return events a second."""
    with make(bench, name) as connection:
        began = time.perf_counter()
        copy(connection, count)
        took = time.perf_counter() - began
        verify("events", one_value(connection, bare.COUNT), count)
    return count / took


def copy(connection: psycopg.Connection[Any], count: int) -> None:
    """Copy events, a transaction for each TRANSACTION of them."""
    lines = "".join(f"{kind}\t{data}\n" for kind, data in events.make(TRANSACTION))
    for _ in range(count // TRANSACTION):
        with connection.cursor() as cursor, cursor.copy(COPY) as stream:
            stream.write(lines)


def growing(bench: Bench, name: str, sizes: tuple[int, ...]) -> list[list[float]]:
    """Return the times in ms to read the newest batch of a table of each size."""
    found: list[list[float]] = []
    with make(bench, name) as connection:
        connection.execute("set enable_seqscan = " + ("on" if name == "none" else "off"))
        connection.execute("set jit = off")
        have = 0
        for size in sizes:
            bench.say(f"{name}, a table of {size:,} events")
            copy(connection, size - have)
            have = size
            if name == "BRIN":
                connection.execute("select brin_summarize_new_values('event_brin')")
            txid = one_value(connection, LAST)
            found.append([read(connection, txid) for _ in range(READS)])
    return found


def read(connection: psycopg.Connection[Any], txid: int) -> float:
    """Read the newest batch; return milliseconds."""
    began = time.perf_counter()
    row = connection.execute(READ.format(txid=txid).encode()).fetchone()
    took = time.perf_counter() - began
    verify("events of the batch", row and row[0], TRANSACTION)
    return took * 1000
