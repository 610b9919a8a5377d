"""The play itself: a ticker, a consumer, pgbench, and a SIGKILL in the middle."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from pgqpy import connect
from pgqpy.demo.balances import CONSUMER, QUEUE
from pgqpy.demo.children import Child, running
from pgqpy.demo.connection import environment
from pgqpy.demo.errors import DemoFailed
from pgqpy.demo.gauge import Gauge
from pgqpy.demo.pgbench import Workload

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

    from pgqpy.demo.place import Place
    from pgqpy.demo.view import View

LOOK_INTERVAL = 0.25  # seconds
START_TIMEOUT = 30  # seconds for the consumer to connect
BUSY_TIMEOUT = 2.0  # seconds to find the consumer at work before it is killed all the same
DRAIN_TIMEOUT = 60  # seconds for the consumer to get through once pgbench has ended
DEAD_TIME = 1.0  # seconds at most that the consumer stays dead

BALANCES = [sys.executable, "-m", "pgqpy", "consumer", "run", "pgqpy.demo.balances:Balances"]
TICKER = [sys.executable, "-m", "pgqpy.ticker"]
NOW = "select extract(epoch from clock_timestamp())::float8"
CONNECTED = """
    select count(*) from pg_stat_activity
     where application_name = %s and datname = current_database()
"""
AT_WORK = f"{CONNECTED} and xact_start is not null"


class Outcome(NamedTuple):
    """What happened, besides what the tables say."""

    transactions: int  # as pgbench counts them
    seconds: float  # that pgbench ran
    kills: int
    killed_at: float  # seconds since 1970 by the server's clock


class Play:
    """One performance. Everything it starts has ended when the block ends."""

    def __init__(self, place: Place, view: View) -> None:
        """Start nothing yet."""
        self._place = place
        self._view = view
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Start the ticker and the consumer, and wait until the consumer runs."""
        with ExitStack() as stack:
            self._client = stack.enter_context(connect(self._place.dsn))
            self._children = stack.enter_context(ExitStack())
            self._ticker = self._start("ticker", TICKER)
            self._consumer = self._start("consumer", BALANCES)
            self._until(self._consumer_runs, START_TIMEOUT, "the consumer did not start")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Kill what still runs."""
        self._stack.close()

    def run(self, *, seconds: int, clients: int) -> Outcome:
        """Run the workload, kill the consumer half way, wait until all is processed."""
        self._gauge = Gauge(self._client.connection)
        with Workload(self._place, seconds=seconds, clients=clients) as workload:
            began = time.monotonic()
            self._watch(lambda: time.monotonic() < began + seconds / 2 and workload.running)
            killed_at = self._kill()
            dead_until = time.monotonic() + min(DEAD_TIME, seconds / 10)
            self._watch(lambda: time.monotonic() < dead_until, alive=False)
            self._revive()
            self._watch(lambda: workload.running)
            transactions = workload.transactions()
            ran = time.monotonic() - began
        self._view.say(f"pgbench has ended: {transactions:,} transactions")
        self._drain()
        return Outcome(transactions, ran, self._gauge.kills, killed_at)

    def close(self) -> None:
        """Stop consumer and ticker as an administrator would, by SIGTERM."""
        for child in (self._consumer, self._ticker):
            code = child.stop()
            if code:
                raise child.failure(f"ended with exit code {code} after SIGTERM")
        self._view.say("consumer and ticker have stopped")

    def _start(self, name: str, command: list[str]) -> Child:
        child = Child(name, command, environment(self._place.dsn), self._place.logs)
        self._children.enter_context(running(child))
        self._view.say(f"{name} started, process {child.pid}")
        return child

    def _kill(self) -> float:
        """Kill the consumer in the middle of a batch; return when, by the server's clock."""
        deadline = time.monotonic() + BUSY_TIMEOUT
        while not self._scalar(AT_WORK, APPLICATION):
            if time.monotonic() > deadline:
                break
        self._consumer.kill()
        self._gauge.kills += 1
        pid = self._consumer.pid
        self._view.say(f"consumer killed (SIGKILL), process {pid}; events go on coming in")
        return float(self._scalar(NOW))

    def _revive(self) -> None:
        self._consumer = self._start("consumer", BALANCES)

    def _watch(self, go_on: Callable[[], bool], *, alive: bool = True) -> None:
        """Show the figures as long as it says; the processes are to stay alive meanwhile."""
        while go_on():
            self._check(alive=alive)
            self._view.show(self._gauge.read())
            time.sleep(LOOK_INTERVAL)

    def _drain(self) -> None:
        """Tick a last time, and wait until the consumer has finished that tick."""
        tick = self._client.tick_queue(QUEUE)
        last = 0 if tick is None else tick[0]

        def through() -> bool:
            self._view.show(self._gauge.read())
            (info,) = self._client.get_consumer_info(QUEUE, CONSUMER)
            return info.last_tick is not None and info.last_tick >= last

        self._until(through, DRAIN_TIMEOUT, "the consumer does not get to the end of the queue")

    def _until(self, done: Callable[[], bool], timeout: float, otherwise: str) -> None:
        deadline = time.monotonic() + timeout
        while not done():
            self._check()
            if time.monotonic() > deadline:
                raise DemoFailed(f"{otherwise} within {timeout:.0f} s")
            time.sleep(LOOK_INTERVAL / 5)

    def _check(self, *, alive: bool = True) -> None:
        for child in (self._ticker, *([self._consumer] if alive else [])):
            child.check()

    def _consumer_runs(self) -> bool:
        return bool(self._scalar(CONNECTED, APPLICATION))

    def _scalar(self, query: Any, *params: str) -> Any:
        row = self._client.connection.execute(query, params).fetchone()
        return row[0] if row else None


APPLICATION = f"pgqpy consumer {CONSUMER}"
