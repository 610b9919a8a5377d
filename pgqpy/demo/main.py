"""The steps of the demo in order, its dashboard, and its exit code."""

from __future__ import annotations

import re
import sys
import time
from contextlib import ExitStack, contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from pgqpy import connect
from pgqpy.child_processes import own_process
from pgqpy.demo.balances import CONSUMER, QUEUE
from pgqpy.demo.scenario import (
    LAKE,
    SCALE,
    Scenario,
    make_tables,
    open_database,
    write_parquet,
)
from pgqpy.demo.verdict import Result, judge, judge_parquet, print_result
from pgqpy.sandbox import RunFailed, ignore_signals, interruptible, open_view

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgqpy.sandbox import Child, Database, View

START_TIMEOUT = 60  # seconds until it listens
POLL_INTERVAL = 0.1  # seconds
DASHBOARD = own_process("pgqpy", "dashboard", "--host", "127.0.0.1", "--port", "0")
ADDRESS = re.compile(r"^dashboard: (http://\S+/)$", re.MULTILINE)


@contextmanager
def dashboard(database: Database, view: View) -> Iterator[Child]:
    """Serve the dashboard of the demo's database during the block; say its URL."""
    with database.start("dashboard", DASHBOARD) as child:
        view.say(f"the dashboard: {_wait_for_url(child)}")
        yield child


def on_terminal() -> bool:
    """Say whether somebody sees the output, and can press Ctrl-C."""
    return sys.stdout.isatty() and sys.stderr.isatty()


def stay(child: Child) -> None:
    """Return at Ctrl-C, and if the dashboard ends."""
    try:
        while child.running:
            time.sleep(POLL_INTERVAL)
    except KeyboardInterrupt:
        return


def _wait_for_url(child: Child) -> str:
    deadline = time.monotonic() + START_TIMEOUT
    while (found := ADDRESS.search(child.output())) is None:
        child.check()
        if time.monotonic() > deadline:
            raise RunFailed(f"the dashboard did not start within {START_TIMEOUT} s")
        time.sleep(POLL_INTERVAL)
    return found[1]


FINE, FAILED, INTERRUPTED = 0, 1, 130


class Options(NamedTuple):
    """How the demo runs.

    Attributes:
        missing_for_spark: what Spark lacks; empty: it reads the events too, at the end.
        dsn: the server; None starts an embedded one.
        seconds: how long pgbench runs.
        clients: its connections.
        dashboard: serve the dashboard beside the demo, on a terminal until Ctrl-C.
    """

    missing_for_spark: str
    dsn: str | None = None
    seconds: int = 15
    clients: int = 4
    dashboard: bool = False


def run(options: Options) -> int:
    """Run the demo; return the process's exit code: 0 passed, 1 failed, 130 interrupted.

    Call this in the main thread, which receives the signals.

    Raises MissingExtra, RunFailed, and errors of the server.
    """
    stays = options.dashboard and on_terminal()
    try:
        with (
            interruptible(),
            open_view("demo") as view,
            open_database(options.dsn, options.clients, view.say) as database,
            ExitStack() as beside,
        ):
            served = beside.enter_context(dashboard(database, view)) if options.dashboard else None
            # The ticker stays beside the dashboard, so that the queue that it shows has ticks.
            result = _run_steps(database, view, options, None if served is None else beside)
            if served is not None and stays:
                view.close_panel()
                print_result(result)
                view.say("the dashboard stays until Ctrl-C")
                stay(served)
            ignore_signals()
    except KeyboardInterrupt:
        with open_view("demo") as view:
            view.say("interrupted: everything is stopped and removed")
        return INTERRUPTED
    if not stays:
        print_result(result)
    return FINE if result.passed else FAILED


def _run_steps(
    database: Database, view: View, options: Options, beside: ExitStack | None
) -> Result:
    missing_for_spark = options.missing_for_spark
    make_tables(database)
    scale = SCALE
    view.say(f"pgbench made its tables: {scale} branches, {scale * 100_000:,} accounts")
    with connect(database.dsn) as client:
        client.connection.execute((files("pgqpy.demo") / "tables.sql").read_bytes())
        client.create_queue(QUEUE)
        client.register_consumer(QUEUE, CONSUMER, shared=True)
        if not missing_for_spark:
            client.register_consumer(QUEUE, LAKE)
        with ExitStack() as children:
            scenario = Scenario(database, view, client, children, beside)
            outcome = scenario.play(options.seconds, options.clients)
        if missing_for_spark:
            view.say(f"the Spark step is skipped: {missing_for_spark}")
        sums = None if missing_for_spark else write_parquet(database, view)
        view.say("comparing every balance")
        result = judge(client.connection, outcome)
        return result if sums is None else judge_parquet(client.connection, sums, result)
