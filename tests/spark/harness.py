"""Producers, a ticker and a Spark driver on one server, and the verdict on what Spark wrote.

The truth is what the producers wrote down outside the database (tests/guarantees/history.py).
"""

from __future__ import annotations

import json
import random
import secrets
import sys
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from pgqpy.install import install
from tests.guarantees.history import Delivery, Findings, Transaction, check, read_transactions
from tests.guarantees.sessions import Database
from tests.spark.harness_cluster import SessionProcess
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pgqpy.testing import EmbeddedServer
    from tests.support.processes import PythonProcess

HERE = Path(__file__).parent
CONSUMERS = ("files", "tables")
GATE_KEY = 4711
ROTATION = "2 seconds"
SETUP = """
    create table marker (data text);
    create table epoch (epoch bigint primary key);
    create table refused (epoch bigint);
    create table delivered (tick_id bigint, ev_id bigint, ev_data text);
    create table latest (producer text primary key, events bigint, last_id bigint);
"""
RECOVERY = 300  # seconds; a driver alone on two cores starts in ten, beside others in sixty
# No transaction of a producer is open, and the last tick sees all that they have committed.
AT_REST = """
    select not exists (select from pg_locks
            where relation = 'pgq.event_1_id_seq'::regclass and mode = 'RowExclusiveLock')
        and not exists (select from pgq.event_1
            where not pg_visible_in_snapshot(ev_txid::text::xid8, (
                select tick_snapshot::text::pg_snapshot from pgq.tick
                order by tick_id desc limit 1)))
"""


class Row(NamedTuple):
    """What Spark wrote of an event."""

    tick: int
    id: int
    data: str


class Flow:
    """A queue `q` under load, and the driver that reads it."""

    def __init__(
        self, server: EmbeddedServer, spawn: Callable[..., PythonProcess], folder: Path
    ) -> None:
        """Make the queue and start producers and ticker; Spark is started by `drive`."""
        self.server, self.folder, self._spawn = server, folder, spawn
        self.dsn = server.dsn()
        self.seed = secrets.randbits(32)
        sys.stdout.write(f"seed: {self.seed}\n")  # pytest shows it if the test fails
        self.choose = random.Random(self.seed)
        self.master = "local[2]"
        self.driver: SessionProcess | None = None
        self._prepare()
        self._ticker = self._start_ticker()
        self._producers = [self._start_producer(number) for number in range(2)]

    def _prepare(self) -> None:
        db = Database(self.dsn)
        install(db.main.connection)
        db.queue(consumers=CONSUMERS, rotation_period=ROTATION)
        db.main.run(SETUP)
        db.close()

    def _start_ticker(self) -> PythonProcess:
        settings = {"PGQPY_MAINT_PERIOD": "0.5", "PGQPY_DSN": self.dsn}
        return self._spawn("-m", "pgqpy", "ticker", "run", env=settings)

    def _start_producer(self, number: int) -> PythonProcess:
        log = str(self.folder / f"produced {number}")
        words = (str(HERE / "harness_producer.py"), self.dsn, log, str(self.seed + 10 * number))
        return self._spawn(*words, env={"PYTHONPATH": str(HERE.parents[1])})

    def start(self, what: str) -> SessionProcess:
        """Start a driver; `what` is told in harness_driver.py."""
        words = (str(HERE / "harness_driver.py"), self.master, str(self.folder), what)
        self.driver = SessionProcess(sys.executable, "-u", *words, env=self.environment)
        return self.driver

    @property
    def environment(self) -> dict[str, str]:
        """What the driver and all executors are told."""
        python_path = str(HERE.parents[1])
        return {"PGQPY_DSN": self.dsn, "PYTHONPATH": python_path, "GATE_KEY": str(GATE_KEY)}

    def close(self) -> None:
        """End the driver; the others are ended by who made `spawn`."""
        if self.driver is not None:
            self.driver.close()

    def epochs(self, consumer: str) -> int:
        """Return how many micro-batches Spark has committed; it keeps the names of the last."""
        commits = self.folder / consumer / "commits"
        names = [path.name for path in commits.iterdir()] if commits.is_dir() else []
        return max((int(name) + 1 for name in names if name.isdigit()), default=0)

    def progress(self, more: int = 1) -> None:
        """Wait until both queries have committed some micro-batches more."""
        wanted = {consumer: self.epochs(consumer) + more for consumer in CONSUMERS}

        def moved() -> bool:
            assert self.driver is not None
            if not self.driver.running:
                raise RuntimeError(self.driver.output())
            return all(self.epochs(name) >= number for name, number in wanted.items())

        eventually(moved, RECOVERY, interval=0.05)

    def produced(self) -> int:
        """Return how many bytes the producers have written down: a clock of a kind."""
        return sum(path.stat().st_size for path in self._logs())

    def random_moment(self, most: int = 20_000) -> None:
        """Wait until the producers have written up to so many bytes more."""
        wanted = self.produced() + self.choose.randrange(most)
        eventually(lambda: self.produced() >= wanted, RECOVERY, interval=0.005)

    def _logs(self) -> list[Path]:
        return [path for path in self.folder.iterdir() if path.name.startswith("produced ")]

    def come_to_rest(self, what: str = "drain") -> str:
        """Stop the producers, wait for the last tick, and let Spark take everything."""
        for producer in self._producers:
            producer.kill()
        eventually(lambda: self.query(AT_REST) == [(True,)], RECOVERY, interval=0.05)
        return self.run(what)

    def run(self, what: str) -> str:
        """Run a driver that comes to an end, and return what it said."""
        self.close()
        driver = self.start(what)
        assert driver.wait(RECOVERY) == 0, driver.output()
        return driver.output()

    def query(self, query: str) -> list[tuple[Any, ...]]:
        """Ask on a connection of its own, which a crash does not take along."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            return connection.execute(query.encode()).fetchall()

    def transactions(self) -> list[Transaction]:
        """Return what the producers wrote down."""
        return [each for path in self._logs() for each in read_transactions(path)]

    def files(self, name: str = "rows.jsonl") -> list[Row]:
        """Return what a driver wrote down of what it found."""
        lines = (self.folder / name).read_text().splitlines()
        return [Row(*json.loads(line)) for line in lines]

    def tables(self) -> list[Row]:
        """Return what foreachBatch wrote."""
        return [Row(*row) for row in self.query("select * from delivered")]

    def findings(self, rows: Iterable[Row]) -> Findings:
        """Judge what Spark wrote: each tick is a batch."""
        transactions = self.transactions()
        assert sum(t.outcome == "committed" for t in transactions) > 500
        assert sum(t.outcome == "aborted" for t in transactions) > 50
        return check(transactions, by_tick(rows))

    def wrong_sums(self) -> list[tuple[Any, ...]]:
        """Return the producers whose upserted sum is not what foreachBatch delivered of them."""
        truth = Counter(row.data.partition(":")[0] for row in self.tables())
        sums = dict(self.query("select producer, events::int from latest"))
        return sorted((truth | Counter(sums)).keys() - {k for k in sums if sums[k] == truth[k]})

    def rotations(self) -> int:
        """Return how many times the queue has rotated."""
        return self._ticker.output().count(" rotated ")

    def left(self) -> int:
        """Return how many events are still in the queue's tables."""
        return int(self.query("select count(*) from pgq.event_1")[0][0])


def by_tick(rows: Iterable[Row]) -> list[Delivery]:
    """Put what was written into the form of a consumer's history."""
    deliveries: list[Delivery] = []
    for tick, group in groupby(sorted(rows), lambda row: row.tick):
        before = deliveries[-1].tick if deliveries else 0
        events = [[row.id, row.data, None] for row in group]
        deliveries.append(Delivery(tick, before, tick, events, []))
    return deliveries
