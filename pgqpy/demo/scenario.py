"""The demo's scenario: a ticker, a consumer, pgbench, and a SIGKILL of the consumer."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from pgqpy import connect
from pgqpy.demo.abort import DemoFailed
from pgqpy.demo.balances import CONSUMER, QUEUE
from pgqpy.demo.connection import environment
from pgqpy.demo.pgbench import Workload
from pgqpy.demo.processes import Child, running
from pgqpy.demo.progress import ProgressReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

    from pgqpy.demo.database import DemoDatabase
    from pgqpy.demo.view import View

SHOW_INTERVAL = 0.25  # seconds
START_TIMEOUT = 30  # seconds for the consumer to connect
BUSY_TIMEOUT = 2.0  # seconds to wait for an open batch before the kill
DRAIN_TIMEOUT = 60  # seconds for the consumer to finish after pgbench's end
DEAD_TIME = 1.0  # seconds at most from the kill to the restart

BALANCES = [sys.executable, "-m", "pgqpy", "consumer", "run", "pgqpy.demo.balances:Balances"]
TICKER = [sys.executable, "-m", "pgqpy", "ticker", "run"]
NOW = "select extract(epoch from clock_timestamp())::float8"
CONNECTED = """
    select count(*) from pg_stat_activity
     where application_name = %s and datname = current_database()
"""
AT_WORK = f"{CONNECTED} and xact_start is not null"


class Outcome(NamedTuple):
    """What the tables do not say: counts, durations and the time of the kill."""

    transactions: int  # as pgbench counts them
    seconds: float  # that pgbench ran
    kills: int
    killed_at: float  # Unix time by the server's clock


class Scenario:
    """One run of the scenario, as a context manager that ends all processes it started."""

    def __init__(self, database: DemoDatabase, view: View) -> None:
        """Take the database and the display; start nothing yet."""
        self._database = database
        self._view = view
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Start the ticker and the consumer, and wait for the consumer's session."""
        with ExitStack() as stack:
            self._client = stack.enter_context(connect(self._database.dsn))
            self._children = stack.enter_context(ExitStack())
            self._ticker = self._start("ticker", TICKER)
            self._consumer = self._start("consumer", BALANCES)
            self._until(self._consumer_runs, START_TIMEOUT, "the consumer did not start")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the processes that still run."""
        self._stack.close()

    def run(self, *, seconds: int, clients: int) -> Outcome:
        """Run the workload, kill the consumer half way, wait until all events are processed."""
        self._progress = ProgressReader(self._client.connection)
        with Workload(self._database, seconds=seconds, clients=clients) as workload:
            began = time.monotonic()
            self._watch(lambda: time.monotonic() < began + seconds / 2 and workload.running)
            killed_at = self._kill_consumer()
            dead_until = time.monotonic() + min(DEAD_TIME, seconds / 10)
            self._watch(lambda: time.monotonic() < dead_until, alive=False)
            self._consumer = self._start("consumer", BALANCES)
            self._watch(lambda: workload.running)
            transactions = workload.transactions()
            ran = time.monotonic() - began
        self._view.say(f"pgbench has ended: {transactions:,} transactions")
        self._drain()
        return Outcome(transactions, ran, self._progress.kills, killed_at)

    def close(self) -> None:
        """Stop the consumer and the ticker by SIGTERM, as an administrator does."""
        for child in (self._consumer, self._ticker):
            code = child.stop()
            if code:
                raise child.failure(f"ended with exit code {code} after SIGTERM")
        self._view.say("consumer and ticker have stopped")

    def _start(self, name: str, command: list[str]) -> Child:
        child = Child(name, command, environment(self._database.dsn), self._database.logs)
        self._children.enter_context(running(child))
        self._view.say(f"{name} started, process {child.pid}")
        return child

    def _kill_consumer(self) -> float:
        """Kill the consumer within a batch; return the time by the server's clock."""
        deadline = time.monotonic() + BUSY_TIMEOUT
        while not self._scalar(AT_WORK, APPLICATION):
            if time.monotonic() > deadline:
                break
        self._consumer.kill()
        self._progress.kills += 1
        pid = self._consumer.pid
        self._view.say(f"consumer killed (SIGKILL), process {pid}; events go on coming in")
        return float(self._scalar(NOW))

    def _watch(self, go_on: Callable[[], bool], *, alive: bool = True) -> None:
        """Show the figures while `go_on` says so; DemoFailed if a process ends meanwhile."""
        while go_on():
            self._check(alive=alive)
            self._view.show(self._progress.read())
            time.sleep(SHOW_INTERVAL)

    def _drain(self) -> None:
        """Tick a last time and wait until the consumer has finished that tick."""
        tick = self._client.tick_queue(QUEUE)
        last = 0 if tick is None else tick[0]

        def through() -> bool:
            self._view.show(self._progress.read())
            (info,) = self._client.get_consumer_info(QUEUE, CONSUMER)
            return info.last_tick is not None and info.last_tick >= last

        self._until(through, DRAIN_TIMEOUT, "the consumer does not get to the end of the queue")

    def _until(self, done: Callable[[], bool], timeout: float, otherwise: str) -> None:
        deadline = time.monotonic() + timeout
        while not done():
            self._check()
            if time.monotonic() > deadline:
                raise DemoFailed(f"{otherwise} within {timeout:.0f} s")
            time.sleep(SHOW_INTERVAL / 5)

    def _check(self, *, alive: bool = True) -> None:
        for child in (self._ticker, *([self._consumer] if alive else [])):
            child.check()

    def _consumer_runs(self) -> bool:
        return bool(self._scalar(CONNECTED, APPLICATION))

    def _scalar(self, query: Any, *params: str) -> Any:
        row = self._client.connection.execute(query, params).fetchone()
        return row[0] if row else None


APPLICATION = f"pgqpy consumer {CONSUMER}"
