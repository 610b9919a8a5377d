"""The steps of the demo in order, and its exit code."""

from __future__ import annotations

from importlib.resources import files

from pgqpy import connect
from pgqpy.demo import pgbench
from pgqpy.demo.balances import CONSUMER, QUEUE
from pgqpy.demo.database import DemoDatabase, open_database
from pgqpy.demo.scenario import play
from pgqpy.demo.spark_step import LAKE, write_parquet
from pgqpy.demo.verdict import Result, judge, judge_parquet
from pgqpy.demo.view import print_result
from pgqpy.sandbox.abort import ignore_signals, interruptible
from pgqpy.sandbox.view import View, open_view

FINE, FAILED, INTERRUPTED = 0, 1, 130


def run(missing_for_spark: str, dsn: str | None = None, seconds: int = 15, clients: int = 4) -> int:
    """Run the demo; return the process's exit code: 0 passed, 1 failed, 130 interrupted.

    `dsn` names the server; None starts an embedded one. pgbench runs for `seconds`, with `clients`
    connections. Then Spark reads the same events, unless `missing_for_spark` says what it lacks.
    Call this in the main thread, which receives the signals.

    Raises MissingExtra, RunFailed, and errors of the server.
    """
    try:
        with (
            interruptible(),
            open_view("demo") as view,
            open_database(dsn, clients, view.say) as database,
        ):
            result = _run_steps(database, view, missing_for_spark, seconds, clients)
            ignore_signals()
    except KeyboardInterrupt:
        with open_view("demo") as view:
            view.say("interrupted: everything is stopped and removed")
        return INTERRUPTED
    print_result(result)
    return FINE if result.passed else FAILED


def _run_steps(
    database: DemoDatabase, view: View, missing_for_spark: str, seconds: int, clients: int
) -> Result:
    pgbench.make_tables(database)
    scale = pgbench.SCALE
    view.say(f"pgbench made its tables: {scale} branches, {scale * 100_000:,} accounts")
    with connect(database.dsn) as client:
        client.connection.execute((files("pgqpy.demo") / "tables.sql").read_bytes())
        client.create_queue(QUEUE)
        for consumer in (CONSUMER, *([] if missing_for_spark else [LAKE])):
            client.register_consumer(QUEUE, consumer)
        outcome = play(database, view, client, seconds=seconds, clients=clients)
        if missing_for_spark:
            view.say(f"the Spark step is skipped: {missing_for_spark}")
        sums = None if missing_for_spark else write_parquet(database, view)
        view.say("comparing every balance")
        result = judge(client.connection, outcome)
        return result if sums is None else judge_parquet(client.connection, sums, result)
