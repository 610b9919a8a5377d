"""The steps of the demo in order, and its exit code."""

from __future__ import annotations

from importlib.resources import files

from pgqpy import connect
from pgqpy.demo.abort import ignore_signals, interruptible
from pgqpy.demo.balances import CONSUMER, QUEUE
from pgqpy.demo.database import DemoDatabase, embedded_database, existing_database
from pgqpy.demo.pgbench import SCALE, make_tables
from pgqpy.demo.scenario import play
from pgqpy.demo.spark_step import LAKE, Spark, write_parquet
from pgqpy.demo.verdict import Result, judge, judge_parquet
from pgqpy.demo.view import View, open_view, print_result

FINE, FAILED, INTERRUPTED = 0, 1, 130


def run(spark: Spark, dsn: str | None = None, seconds: int = 15, clients: int = 4) -> int:
    """Run the demo; return the process's exit code: 0 passed, 1 failed, 130 interrupted.

    `dsn` names the server; None starts an embedded one. pgbench runs for `seconds`, with `clients`
    connections. Then `spark`, if it is available, reads the same events. Call this in the main
    thread, which receives the signals.

    Raises MissingExtra, DemoFailed, and errors of the server.
    """
    try:
        with interruptible(), open_view() as view:
            result = _run_steps(spark, dsn, seconds, clients, view)
    except KeyboardInterrupt:
        with open_view() as view:
            view.say("interrupted: everything is stopped and removed")
        return INTERRUPTED
    print_result(result)
    return FINE if result.passed else FAILED


def _run_steps(spark: Spark, dsn: str | None, seconds: int, clients: int, view: View) -> Result:
    opened = (
        embedded_database(clients, view.say) if dsn is None else existing_database(dsn, view.say)
    )
    with opened as database:
        _prepare(database, view, spark)
        outcome = play(database, view, seconds=seconds, clients=clients)
        sums = write_parquet(database, view, spark)
        view.say("comparing every balance")
        with connect(database.dsn) as client:
            result = judge(client.connection, outcome)
            if sums is not None:
                result = judge_parquet(client.connection, sums, result)
        ignore_signals()
    return result


def _prepare(database: DemoDatabase, view: View, spark: Spark) -> None:
    """Make pgbench's and the consumer's tables and the queue, and register its consumers."""
    make_tables(database)
    view.say(f"pgbench made its tables: {SCALE} branches, {SCALE * 100_000:,} accounts")
    with connect(database.dsn) as client:
        client.connection.execute((files("pgqpy.demo") / "tables.sql").read_bytes())
        client.create_queue(QUEUE)
        for consumer in (CONSUMER, *([] if spark.missing else [LAKE])):
            client.register_consumer(QUEUE, consumer)
