"""The demo from its first line to its exit code."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from pgqpy import connect
from pgqpy.demo.balances import CONSUMER, QUEUE
from pgqpy.demo.lake import LAKE, fill_lake
from pgqpy.demo.pgbench import SCALE, make_tables
from pgqpy.demo.place import given_place, own_place
from pgqpy.demo.play import Play
from pgqpy.demo.report import print_result
from pgqpy.demo.signals import be_deaf, interruptible
from pgqpy.demo.verdict import judge, judge_lake
from pgqpy.demo.view import open_view

if TYPE_CHECKING:
    from pgqpy.demo.lake import Spark
    from pgqpy.demo.place import Place
    from pgqpy.demo.verdict import Result
    from pgqpy.demo.view import View

FINE, FAILED, INTERRUPTED = 0, 1, 130


def run(spark: Spark, dsn: str | None = None, seconds: int = 15, clients: int = 4) -> int:
    """Play the demo; return the process's exit code: 0 passed, 1 not, 130 interrupted.

    `dsn` names a server to play on; None brings one. `seconds` is how long pgbench runs, with
    `clients` connections; then `spark`, if it is there, reads the same. Only in the main thread,
    which gets the signals.

    Raises MissingExtra, DemoFailed, and what a server says that it cannot play on.
    """
    try:
        with interruptible(), open_view() as view:
            result = _play(spark, dsn, seconds, clients, view)
    except KeyboardInterrupt:
        with open_view() as view:
            view.say("interrupted: everything is stopped and removed")
        return INTERRUPTED
    print_result(result)
    return FINE if result.passed else FAILED


def _play(spark: Spark, dsn: str | None, seconds: int, clients: int, view: View) -> Result:
    opened = own_place(clients, view.say) if dsn is None else given_place(dsn, view.say)
    with opened as place:
        _prepare(place, view, spark)
        with Play(place, view) as play:
            outcome = play.run(seconds=seconds, clients=clients)
            play.close()
        sums = fill_lake(place, view, spark)
        view.say("comparing every balance")
        with connect(place.dsn) as client:
            result = judge(client.connection, outcome)
            if sums is not None:
                result = judge_lake(client.connection, sums, result)
        be_deaf()
    return result


def _prepare(place: Place, view: View, spark: Spark) -> None:
    """Make pgbench's tables, the consumer's, and the queue with its consumers registered."""
    make_tables(place)
    view.say(f"pgbench made its tables: {SCALE} branches, {SCALE * 100_000:,} accounts")
    with connect(place.dsn) as client:
        client.connection.execute((files("pgqpy.demo") / "tables.sql").read_bytes())
        client.create_queue(QUEUE)
        for consumer in (CONSUMER, *([] if spark.missing else [LAKE])):
            client.register_consumer(QUEUE, consumer)
