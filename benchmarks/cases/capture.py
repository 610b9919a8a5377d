"""Changes of tables as events: what the trigger costs, how fast rows are copied and mirrored."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg

import pgqpy
from benchmarks import pgbench
from benchmarks.bench import one_value
from benchmarks.figures import Figure, interleave, ratio, verify
from benchmarks.report import Section, Table, at_least, at_most
from pgqpy import table_copy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.bench import Bench
    from benchmarks.report import Cell, Target

TITLE = "Changes of a table as events, the copy of its rows, and a mirror"
QUEUE = "bench"
BARE, OURS, PGQ = "no trigger", "pgq.capture", "PGQ's jsontriga in C"
STATEMENTS = (1, 100, 20_000)  # rows
TABLE = """
    create table t (id bigint primary key, customer int not null, name text, amount numeric,
        paid boolean, placed timestamptz)"""
ROWS = """
    select i, i % 1000, 'name ' || i, i / 100.0, i % 2 = 0, now()
      from generate_series({}, {}) i"""
JSONTRIGA = f"""
    create trigger c after insert or update or delete on t
        for each row execute function pgq.jsontriga('{QUEUE}')"""
TPCB = """
\\set aid random(1, 100000)
\\set tid random(1, 100)
\\set bid random(1, 10)
\\set delta random(-5000, 5000)
begin;
update pgbench_accounts set abalance = abalance + :delta where aid = :aid;
select abalance from pgbench_accounts where aid = :aid;
update pgbench_tellers set tbalance = tbalance + :delta where tid = :tid;
update pgbench_branches set bbalance = bbalance + :delta where bid = :bid;
insert into pgbench_history (tid, bid, aid, delta, mtime) values (:tid, :bid, :aid, :delta, now());
end;
"""
BALANCES = """
    create table pgbench_accounts (aid int primary key, bid int, abalance int, filler char(84));
    create table pgbench_tellers (tid int primary key, bid int, tbalance int, filler char(84));
    create table pgbench_branches (bid int primary key, bbalance int, filler char(88));
    create table pgbench_history (tid int, bid int, aid int, delta int, mtime timestamptz,
        hid bigserial primary key);
    insert into pgbench_accounts select i, 1, 0, '' from generate_series(1, 100000) i;
    insert into pgbench_tellers select i, 1, 0, '' from generate_series(1, 100) i;
    insert into pgbench_branches select i, 0, '' from generate_series(1, 10) i;"""
CHANGES = "update t set amount = amount + 1 where id = (random() * 1000)::int + 1;"
UPDATE = "update t set amount = amount + 1"
RATE = 1000  # changes a second, beside the copy
NOTE = (
    "Insert and update are statements of so many rows, sync off. TPC-B is pgbench's, with fsync, 4 "
    "clients and 10 branches. The copy runs beside 1,000 updates a second of the same table, sync "
    "off; COPY writes the same rows into a table with the same key, with nothing beside. The "
    "mirror takes one update of all rows, sync on, with nothing beside."
)


def run(bench: Bench) -> Section:
    """Measure the trigger by rows of a statement, TPC-B, and a copy."""
    rows = measure_rows(bench)
    tpcb = measure_tpcb(bench)
    copied = measure_copy(bench)
    mirrored = measure_mirror(bench)
    names = [name for name in (BARE, OURS, PGQ) if name in rows[1]]
    costs: list[list[Cell]] = [[name, *(rows[size][name] for size in STATEMENTS)] for name in names]
    tables = [
        Table("Time of a row", ["", *(f"{size:,} rows" for size in STATEMENTS)], costs, "us"),
        Table("TPC-B", ["", "tps"], [[name, each] for name, each in tpcb.items()], "1/s"),
        Table("Copy of a table", ["", "rate"], [[k, v] for k, v in copied.items()], "see each"),
        Table("A mirror", ["", "rate"], [["rows", mirrored]], "1/s"),
    ]
    return Section("capture", TITLE, tables, targets(rows, tpcb, copied, mirrored), notes=[NOTE])


def targets(
    rows: dict[int, dict[str, Figure]],
    tpcb: dict[str, Figure],
    copied: dict[str, Figure],
    mirrored: Figure,
) -> list[Target]:
    """Return the targets, met or missed."""
    found = [
        at_most(f"{size:,} rows: time / jsontriga's", ratio(each[OURS], each[PGQ]), 1.5)
        for size, each in rows.items()
        if PGQ in each
    ]
    found.append(at_most("TPC-B: time / without trigger", ratio(tpcb[BARE], tpcb[OURS]), 1.4))
    share = ratio(copied["copy, rows/s"], copied["COPY, rows/s"])
    found.append(at_least("copy / COPY", share, 0.3))
    found.append(at_most("longest chunk (s)", copied["longest chunk, s"].median, 0.2))
    found.append(at_least("mirrored rows a second", mirrored.median, 30_000))
    return found


def databases(bench: Bench) -> dict[str, str]:
    """Make a database for each contestant, with the queue."""
    made = {BARE: bench.pgqpy_database("bare"), OURS: bench.pgqpy_database("ours")}
    for dsn in made.values():
        with pgqpy.connect(dsn) as client:
            client.create_queue(QUEUE)
    if bench.has("pgq"):
        made[PGQ] = bench.peer_database("pgq")
    return made


def measure_rows(bench: Bench) -> dict[int, dict[str, Figure]]:
    """Return the microseconds of a row, by the rows of a statement."""
    total = bench.pick(smoke=2_000, default=40_000, long=200_000)
    made = databases(bench)
    for name, dsn in made.items():
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(TABLE)
            if name == OURS:
                connection.execute("select pgq.add_capture(%s, 'public.t')", [QUEUE])
            if name == PGQ:
                connection.execute(JSONTRIGA)
    found = {}
    for size in STATEMENTS:
        count = max(size, total // 10 if size == 1 else total)
        runs = {
            name: partial(time_rows, bench.dsn_with(dsn, sync=False), size, count)
            for name, dsn in made.items()
        }
        bench.say(f"statements of {size:,} rows")
        found[size] = interleave(runs, bench.rounds, bench.say)
    return found


def time_rows(dsn: str, size: int, count: int) -> float:
    """Insert and update so many rows, in statements of `size`; return the microseconds of one."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("delete from t")
        captured = one_value(
            connection, "select count(*) from pg_trigger where tgrelid = 't'::regclass"
        )
        before = one_value(connection, "select count(*) from pgq.event_1")
        began = time.perf_counter()
        for first in range(1, count + 1, size):
            last = first + size - 1
            connection.execute(("insert into t" + ROWS.format(first, last)).encode())
            between = f"update t set amount = 0 where id between {first} and {last}"
            connection.execute(between.encode())
        seconds = time.perf_counter() - began
        rows = 2 * (-(-count // size) * size)
        events = one_value(connection, "select count(*) from pgq.event_1") - before
        verify("events", events, rows if captured else 0)
    return seconds / rows * 1e6


def measure_tpcb(bench: Bench) -> dict[str, Figure]:
    """Return the transactions a second of TPC-B, with and without the trigger."""
    seconds = bench.pick(smoke=1, default=5, long=20)
    made = {name: dsn for name, dsn in databases(bench).items() if name != PGQ}
    for name, dsn in made.items():
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(BALANCES)
            for table in ("accounts", "tellers", "branches", "history") if name == OURS else ():
                connection.execute("select pgq.add_capture(%s, %s)", [QUEUE, f"pgbench_{table}"])

    def tps(dsn: str) -> float:
        synced = bench.dsn_with(dsn, sync=True)
        return pgbench.run(bench.server, synced, TPCB, clients=4, seconds=seconds).tps

    runs = {name: partial(tps, dsn) for name, dsn in made.items()}
    return interleave(runs, bench.rounds, lambda text: bench.say(f"{text}, TPC-B"))


def measure_copy(bench: Bench) -> dict[str, Figure]:
    """Return the rates of a copy beside changes, and of COPY; and the longest chunk."""
    count = bench.pick(smoke=5_000, default=500_000, long=5_000_000)
    dsn = bench.dsn_with(bench.pgqpy_database("copied"), sync=False)
    with pgqpy.connect(dsn) as client:
        client.create_queue(QUEUE)
        client.connection.execute(TABLE)
        client.connection.execute(("insert into t" + ROWS.format(1, count)).encode())
        client.connection.execute("create table other (like t including all)")
        client.connection.execute("select pgq.add_capture(%s, 'public.t')", [QUEUE])
        longest: list[float] = []
        runs: dict[str, Callable[[], float]] = {
            "copy, rows/s": partial(copy_rows, bench, client, dsn, longest),
            "COPY, rows/s": partial(copy_in, client, count),
        }
        found = interleave(runs, bench.rounds, lambda text: bench.say(f"{text}, {count:,} rows"))
    return {**found, "longest chunk, s": Figure(longest)}


def copy_rows(bench: Bench, client: pgqpy.Client, dsn: str, longest: list[float]) -> float:
    """Copy the table beside changes; return the rows a second, and note the longest chunk."""
    captured = table_copy.find_capture(client, "public.t")
    with changing(bench, dsn):
        began = last = time.perf_counter()
        worst, rows = 0.0, 0
        for place in table_copy.copy_table(client, captured, "public.t", (0, None), bench.say):
            now = time.perf_counter()
            worst, last, rows = max(worst, now - last), now, place.rows
        rate = rows / (last - began)
    longest.append(worst)
    return rate


@contextmanager
def changing(bench: Bench, dsn: str) -> Iterator[None]:
    """Change the table RATE times a second while the block runs."""
    stop = threading.Event()

    def change() -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            due = time.monotonic()
            while not stop.is_set():
                connection.execute(CHANGES.encode())
                due += 1 / RATE
                stop.wait(max(0.0, due - time.monotonic()))

    thread = threading.Thread(target=change)
    thread.start()
    bench.say(f"{RATE:,} changes a second beside")
    try:
        yield
    finally:
        stop.set()
        thread.join()


def copy_in(client: pgqpy.Client, count: int) -> float:
    """COPY the rows into a table with the same key; return the rows a second."""
    connection: psycopg.Connection[Any] = client.connection
    connection.execute("truncate other")
    with connection.cursor().copy("copy t to stdout") as out:
        data = b"".join(out)
    began = time.perf_counter()
    with connection.cursor().copy("copy other from stdin") as into:
        into.write(data)
    seconds = time.perf_counter() - began
    verify("rows", one_value(connection, "select count(*) from other"), count)
    return count / seconds


def measure_mirror(bench: Bench) -> Figure:
    """Return the rows a second that a mirror applies."""
    count = bench.pick(smoke=5_000, default=200_000, long=1_000_000)
    dsn = bench.dsn_with(bench.pgqpy_database("source"), sync=True)
    target = bench.dsn_with(bench.pgqpy_database("target"), sync=True)
    rates: list[float] = []
    with pgqpy.connect(dsn) as client, psycopg.connect(target, autocommit=True) as other:
        client.create_queue(QUEUE)
        client.register_consumer(QUEUE, "mirror")
        for connection in (client.connection, other):
            connection.execute(TABLE)
            connection.execute(("insert into t" + ROWS.format(1, count)).encode())
        client.connection.execute("select pgq.add_capture(%s, 'public.t')", [QUEUE])
        for _ in range(bench.rounds):
            client.connection.execute(UPDATE)
            rates.append(count / time_mirror(client, dsn, target))
            bench.say(f"mirror: {rates[-1]:,.0f} rows/s")
        sums = [one_value(each, "select sum(amount) from t") for each in (client.connection, other)]
        verify("sum of the mirror", sums[1], sums[0])
    return Figure(rates)


def time_mirror(client: pgqpy.Client, dsn: str, target: str) -> float:
    """Return the seconds that a mirror needs for all events."""
    client.tick_queue(QUEUE)
    last = client.get_queue_info(QUEUE)[0].last_tick_id

    def get_position() -> int | None:
        return client.get_consumer_info(QUEUE, "mirror")[0].last_tick

    mirror = pgqpy.Mirror(dsn, queue=QUEUE, name="mirror", target=target)
    thread = threading.Thread(target=mirror.run)
    began = time.perf_counter()
    thread.start()
    while thread.is_alive() and get_position() != last:
        time.sleep(0.01)
    seconds = time.perf_counter() - began
    verify("position of the mirror", get_position(), last)
    mirror.stop()
    thread.join()
    return seconds
