"""Move a subscription over the last micro-batch of a query that has stopped."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

from pgqpy.errors import ConsumerNotFound, InvalidArgument
from pgqpy.spark.connect import connect_planner
from pgqpy.spark.database import Database
from pgqpy.spark.source import lookups
from pgqpy.spark.source.offsets import Offset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pgqpy.client import Client

HEADER = 2  # lines of an offset log before those of the sources: a version, and metadata


def finish(
    spark: SparkSession, checkpoint: str, *, dsn: str | None = None, service: str | None = None
) -> dict[str, int]:
    """Move the subscriptions of a stopped query over the micro-batch that Spark committed last.

    Spark tells a source that a micro-batch is done when it plans the next one. So a query that has
    stopped leaves its subscription one micro-batch behind: the lag shows it, and rotation keeps its
    events. Nothing is lost or doubled without this, nor by it.

    Args:
        spark: the session, which can read the checkpoint wherever it is.
        checkpoint: the query's checkpointLocation.
        dsn: the queue's database; None: as for the option `dsn`.
        service: or a service of libpq.

    Returns:
        Where each consumer of the query stands now.

    Raises:
        ConsumerRunning: the query still runs, or another one of this consumer; SubscriptionMoved;
        QueueNotFound; InvalidArgument: there is no checkpoint.

        query.awaitTermination()
        pgqpy.spark.finish(spark, "lake/_checkpoint")
    """
    database = Database(dsn, service)
    return {offset.consumer: _settle(database, offset) for offset in committed(spark, checkpoint)}


def committed(spark: SparkSession, checkpoint: str) -> list[Offset]:
    """Return where the last micro-batch that Spark committed ended, for each source of ours."""
    planned = _log(spark, checkpoint, "offsets")
    done = _log(spark, checkpoint, "commits")
    if not planned:
        raise InvalidArgument(
            f"{checkpoint!r} is no checkpoint of a streaming query: name its checkpointLocation",
            parameter="checkpoint",
        )
    lines = planned.get(max(done), "").splitlines()[HEADER:] if done else []
    written = [json.loads(line) for line in lines if line.startswith("{")]
    return [Offset(**each) for each in written if set(each) == set(Offset._fields)]


def _log(spark: SparkSession, checkpoint: str, name: str) -> dict[int, str]:
    """Read one of Spark's logs: a file for each micro-batch. Spark knows how, wherever it is."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415  # a session: so it is there

    try:
        files = spark.read.text(f"{checkpoint.rstrip('/')}/{name}", wholetext=True)
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return {}
        raise
    rows: Any = files.select("_metadata.file_name", "value").collect()
    return {int(file): text for file, text in rows if file.isdigit()}


def _settle(database: Database, end: Offset) -> int:
    with connect_planner(database, end.consumer) as client:
        queue = lookups.find_queue_name(client, end.queue_id)
    from pgqpy.spark.source.connection import DriverConnection  # noqa: PLC0415  # executors import this, and need no consumer

    with closing(
        DriverConnection(database, queue, end.consumer, lambda _client: None)
    ) as connection:
        return connection.call(lambda client: _advanced(client, queue, end))


def _advanced(client: Client, queue: str, end: Offset) -> int:
    position = lookups.find_position(client, queue, end.consumer)
    if position is None:
        raise ConsumerNotFound(queue=queue, consumer=end.consumer)
    if position.tick < end.tick:
        client.advance_subscription(queue, end.consumer, position.tick, end.tick)
    return max(position.tick, end.tick)
