"""Many queues in one database: inserts, a session's first insert, and making one more."""

from __future__ import annotations

import statistics
import time
from functools import partial
from typing import TYPE_CHECKING

import psycopg

import pgqpy
from benchmarks import events, pgbench
from benchmarks.bench import QUEUES, SYNC, one_value
from benchmarks.figures import Figure, interleave, ratio, ratios, verify
from benchmarks.report import Section, Table, at_least, at_most

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.bench import Bench
    from benchmarks.report import Cell, Target

TITLE = "insert_event with 1,000 queues in the database"
CLIENTS = (1, 8)
ONE, LAST, ANY, PGQ = "1 queue", "1,000 queues, the last", "1,000 queues, any", "PGQ in C, 1 queue"
THOUSAND = "1,000 queues"
# The same expression makes every name, so that it costs every contestant the same.
SCRIPT = r"""
\if :warm = 0
\set warm 1
{warm_up}
\endif
\set number random({first}, {last})
select pgq.insert_event('q' || lpad(:number::text, 4, '0'), 't', '{data}');
"""
# A session opens a queue's tables at its first insert into it, and PostgreSQL plans the first five
# executions of a statement one by one. What comes after is measured.
WARM_UP_EVENTS = 6  # a queue and session
WARM_UP = """select count(pgq.insert_event('q' || lpad(number::text, 4, '0'), 't', '{data}'))
from generate_series({first}, {last}) number, generate_series(1, {times});""".replace("\n", " ")
WARM_UP_SECONDS = {1: 2, 8: 7}  # by clients; more where that is too short
INSERT = "select pgq.insert_event(%s::text, %s::text, %s::text)"
EMPTY = """
do $$ begin
    execute (select 'truncate ' || string_agg(queue_data_pfx || '_' || queue_cur_table, ', ')
             from pgq.queue);
    perform setval(queue_event_seq::regclass, 1, false) from pgq.queue;
end $$
"""
FASTEST, SLOWEST = 0.9, 10.0  # ratio, and milliseconds
EXTRA = [f"extra{number}" for number in range(10)]
NOTE = (
    "By pgbench. Each session first inserts six events into each queue that it will use "
    "(PostgreSQL plans a statement's first five executions one by one); then begins what is "
    "measured. The first call: a new session inserts one event, in a transaction that is open "
    "already; the time is that of the call, without connecting and committing. After "
    "create_queue: the next insert of a session that was open and had inserted before another "
    "session made a queue."
)
Column = tuple[bool, int]  # synchronous_commit, clients


class Queues:
    """A database with the queues q0001, q0002, …, and the number of inserted events."""

    def __init__(self, dsn: str, last: int) -> None:
        """Take a database with `last` queues, all empty."""
        self.dsn = dsn
        self.last = last
        self.inserted = 0

    def rate(self, bench: Bench, first: int, column: Column, seconds: float) -> float:
        """Insert into any of the queues from `first` on; return events a second, once warm."""
        warm_up = WARM_UP_SECONDS[column[1]] if first < self.last else 0
        while True:
            lasted, tps = self._insert(bench, first, column, warm_up + seconds)
            if lasted >= seconds / 2:
                return tps
            warm_up = 2 * warm_up + 1  # a slow machine

    def _insert(
        self, bench: Bench, first: int, column: Column, seconds: float
    ) -> tuple[float, float]:
        sync, clients = column
        values = {"first": first, "last": self.last, "data": events.data(17)}
        warm_up = WARM_UP.format(**values, times=WARM_UP_EVENTS)
        found = pgbench.run(
            bench.server,
            bench.dsn_with(self.dsn, sync=sync),
            SCRIPT.format(warm_up=warm_up, **values),
            clients=clients,
            seconds=seconds,
            log=True,
            options=(pgbench.PREPARED, "--define=warm=0"),
        )
        self.inserted += found.transactions + WARM_UP_EVENTS * clients * (self.last - first + 1)
        return found.warm_tps()

    def first_call(self, number: int) -> float:
        """Insert by a new session; return the call's milliseconds."""
        with psycopg.connect(self.dsn) as connection:
            connection.execute("select")  # begins the transaction
            return self.call(connection, number)

    def call(self, connection: psycopg.Connection, number: int) -> float:
        """Insert one event; return the call's milliseconds."""
        queue = QUEUES[number % self.last]
        began = time.perf_counter()
        connection.execute(INSERT, (queue, "t", events.data(number)))
        took = time.perf_counter() - began
        self.inserted += 1
        return 1e3 * took

    def create(self, count: int) -> tuple[list[float], list[float]]:
        """Make queues beside an open session; return the milliseconds of each, and of its inserts.

        They are dropped in the end.
        """
        made, after = [], []
        with (
            pgqpy.connect(self.dsn) as client,
            psycopg.connect(self.dsn, autocommit=True) as session,
        ):
            self.call(session, 0)
            for queue in EXTRA[:count]:
                began = time.perf_counter()
                client.create_queue(queue)
                made.append(1e3 * (time.perf_counter() - began))
                after.append(self.call(session, 0))
            for queue in EXTRA[:count]:
                client.drop_queue(queue)
        return made, after

    def verify(self) -> None:
        """Raise Wrong unless the queues hold all inserted events; then empty them."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            counted = one_value(connection, "select count(*) from pgq.event_template")
            verify(f"events in {self.last} queues", counted, self.inserted)
            connection.execute(EMPTY)


def run(bench: Bench) -> Section:
    """Compare one queue with a thousand."""
    databases = make(bench)
    found = {column: rates(bench, databases, column) for column in columns(bench)}
    calls = first_calls(bench, databases)
    made = {
        name: queues.create(bench.pick(smoke=1, default=5, long=10))
        for name, queues in databases.items()
        if name != PGQ
    }
    for queues in databases.values():
        queues.verify()
    tables = [rate_table(found), call_table(calls), create_table(made), *spread(bench)]
    return Section("queues", TITLE, tables, targets(found, calls), notes=[NOTE])


def columns(bench: Bench) -> list[Column]:
    """Return what is measured, a column each."""
    if bench.length == "smoke":
        return [(False, 8)]
    return [(sync, clients) for sync in SYNC for clients in CLIENTS]


def make(bench: Bench) -> dict[str, Queues]:
    """Make the databases."""
    dsn = bench.pgqpy_database()
    with pgqpy.connect(dsn) as client:
        client.create_queue(QUEUES[0])
    found = {ONE: Queues(dsn, 1), THOUSAND: Queues(bench.thousand(), len(QUEUES))}
    if bench.has("pgq"):
        dsn = bench.peer_database("pgq")
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("select pgq.drop_queue('bench'), pgq.create_queue(%s)", QUEUES[:1])
        found[PGQ] = Queues(dsn, 1)
    return found


def rates(bench: Bench, databases: dict[str, Queues], column: Column) -> dict[str, Figure]:
    """Let one queue, the last of a thousand and any of a thousand take turns."""
    seconds = bench.pick(smoke=1, default=2, long=10)
    many = databases[THOUSAND]
    runs: dict[str, Callable[[], float]] = {
        ONE: partial(databases[ONE].rate, bench, 1, column, seconds),
        LAST: partial(many.rate, bench, many.last, column, seconds),
        ANY: partial(many.rate, bench, 1, column, seconds),
    }
    at = title(column)
    return interleave(runs, bench.rounds, lambda text: bench.say(f"{text}, {at}"))


def first_calls(bench: Bench, databases: dict[str, Queues]) -> dict[str, list[float]]:
    """Let sessions of all databases make their first call in turn; return milliseconds, sorted."""
    bench.say("first calls of new sessions")
    count = bench.pick(smoke=10, default=200, long=1000)
    found: dict[str, list[float]] = {name: [] for name in databases}
    for number in range(count):
        for name, queues in databases.items():
            found[name].append(queues.first_call(number * queues.last // count))
    return {name: sorted(times) for name, times in found.items()}


def spread(bench: Bench) -> list[Table]:
    """Return the table of the cost of 1,000 queues in PGQ in C, for comparison."""
    if not bench.has("pgq") or bench.length == "smoke":
        return []
    bench.say("making 1,000 queues of PGQ in C")
    many = Queues(bench.peer_database("pgq", "pgq_thousand"), len(QUEUES))
    with psycopg.connect(many.dsn) as connection:
        connection.execute("select pgq.drop_queue('bench')")
        connection.execute("select pgq.create_queue(name) from unnest(%s::text[]) name", (QUEUES,))
    column = (False, 8)
    runs: dict[str, Callable[[], float]] = {
        "PGQ in C, the last": partial(many.rate, bench, many.last, column, 2),
        "PGQ in C, any": partial(many.rate, bench, 1, column, 2),
    }
    found = interleave(runs, bench.rounds, bench.say)
    many.verify()
    rows: list[list[Cell]] = [[name, figure] for name, figure in found.items()]
    rows.append(["ratio", ratios(*reversed(found.values()))])
    return [Table("1,000 queues in PGQ", ["", title(column)], rows, "events/s")]


def title(column: Column) -> str:
    """Return a column's heading."""
    sync, clients = column
    return f"{clients} {'client' if clients == 1 else 'clients'}, {SYNC[sync]}"


def rate_table(found: dict[Column, dict[str, Figure]]) -> Table:
    """Return the table of the rates, and of their ratios to one queue."""
    rows: list[list[Cell]] = [
        [name, *(figures[name] for figures in found.values())] for name in (ONE, LAST, ANY)
    ]
    rows += [
        [f"ratio: {name}", *(ratios(figures[name], figures[ONE]) for figures in found.values())]
        for name in (LAST, ANY)
    ]
    return Table("Inserted", ["", *map(title, found)], rows, "events/s")


def call_table(calls: dict[str, list[float]]) -> Table:
    """Return the table of the first calls."""
    rows: list[list[Cell]] = [
        [name, statistics.median(times), times[-1], f"{len(times):,}"]
        for name, times in calls.items()
    ]
    return Table("First call of a new session", ["", "median", "max", "sessions"], rows, "ms")


def create_table(made: dict[str, tuple[list[float], list[float]]]) -> Table:
    """Return the table of create_queue."""
    rows: list[list[Cell]] = [
        [name, Figure(times), Figure(after)] for name, (times, after) in made.items()
    ]
    return Table(
        "create_queue", ["with", "create_queue", "an open session's next call"], rows, "ms"
    )


def targets(found: dict[Column, dict[str, Figure]], calls: dict[str, list[float]]) -> list[Target]:
    """Return the targets, met or missed."""
    return [
        *(
            at_least(
                f"{name} / {ONE}, {title(column)}", ratio(figures[name], figures[ONE]), FASTEST
            )
            for column, figures in found.items()
            for name in (LAST, ANY)
        ),
        at_most(
            "first call of a session, 1,000 queues, median (ms)",
            statistics.median(calls[THOUSAND]),
            SLOWEST,
        ),
        at_most("first call of a session, 1,000 queues, max (ms)", calls[THOUSAND][-1], SLOWEST),
    ]
