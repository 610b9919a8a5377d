"""`finish`: advance the subscription of a stopped query to its last committed micro-batch."""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from pgqpy import calls, tick_ranges
from pgqpy.errors import ConsumerNotFound, InvalidArgument, NotFound, QueueNotFound
from pgqpy.spark.connections import Database, connect
from pgqpy.spark.options import parse_offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pgqpy.client import Client
    from pgqpy.spark.options import Offset

HEADER = 2  # first lines of a file of the offset log: a version, and metadata


def finish(
    spark: SparkSession, checkpoint: str, *, dsn: str | None = None, service: str | None = None
) -> dict[str, dict[str, int]]:
    """Advance the subscriptions of a stopped query to the micro-batch that Spark committed last.

    Spark tells a source that a micro-batch is committed when it plans the next one. A stopped query
    therefore leaves its subscription one micro-batch behind: it shows a lag, and rotation keeps the
    events. Calling this is optional: events are read exactly once with and without it.

    Args:
        spark: a session that can read the checkpoint.
        checkpoint: the query's checkpointLocation.
        dsn: the queue's database; None means PGQPY_DSN or libpq's PG* variables.
        service: the name of a libpq service, instead of `dsn`.

    Returns:
        The tick at which each consumer of the query is now, of each queue: {"lake": {"orders": 7}}.

    Raises:
        ConsumerRunning: the query, or another one of this consumer, is still running.
        ConsumerNotFound, QueueNotFound: the consumer or the queue was dropped.
        ConsumerRunning: another program moved the consumer.
        InvalidArgument: `checkpoint` is no checkpoint.

        query.awaitTermination()
        pgqpy.spark.finish(spark, "lake/_checkpoint")
    """
    database = Database(dsn, service)
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for offset in committed(spark, checkpoint):
        queue, tick = _advance(database, offset)
        found[offset.consumer][queue] = tick
    return dict(found)


def committed(spark: SparkSession, checkpoint: str) -> list[Offset]:
    """Return the end offsets of the last committed micro-batch, of all pgqpy sources."""
    planned = _log(spark, checkpoint, "offsets")
    done = _log(spark, checkpoint, "commits")
    if not planned:
        raise InvalidArgument(
            f"{checkpoint!r} is not the checkpoint of a streaming query: "
            "name its checkpointLocation",
            parameter="checkpoint",
        )
    lines = planned.get(max(done), "").splitlines()[HEADER:] if done else []
    found: list[Offset] = []
    for line in lines:
        with suppress(InvalidArgument, ValueError):  # another source's
            found += parse_offsets(json.loads(line)).values()
    return found


def _log(spark: SparkSession, checkpoint: str, name: str) -> dict[int, str]:
    """Return one of the checkpoint's logs, a file for each micro-batch, by batch number."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415  # the session proves that pyspark is installed

    try:
        files = spark.read.text(f"{checkpoint.rstrip('/')}/{name}", wholetext=True)
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return {}
        raise
    rows: Any = files.select("_metadata.file_name", "value").collect()
    return {int(file): text for file, text in rows if file.isdigit()}


def _advance(database: Database, end: Offset) -> tuple[str, int]:
    """Return the queue's name, and the tick where the consumer is now."""
    with connect(database, end.consumer) as client:
        queue = tick_ranges.find_queue_name(client, end.queue_id)
    if queue is None:
        raise QueueNotFound(
            f"no queue has the id {end.queue_id} that the checkpoint names: it was dropped, "
            "or this is another database (option dsn, PGQPY_DSN)"
        )
    from pgqpy.spark.source.driver_connection import DriverConnection  # noqa: PLC0415  # executors import this module and need no consumer

    def advance(client: Client) -> int:
        position = tick_ranges.find_position(client, queue, end.consumer)
        if position is None:
            raise ConsumerNotFound(queue=queue, consumer=end.consumer)
        times = tick_ranges.find_tick_times(client, end.queue_id, end.tick)
        if times.get(end.tick, end.time) != end.time:
            raise NotFound(
                f"queue {queue!r} has lost tick {end.tick}, where the query was at {end.time}: "
                "start the query again, and it says how to go on",
                queue=queue,
                tick_id=end.tick,
                sqlstate="PQ005",
            )
        if position.tick < end.tick:
            client.call(
                calls.ticks.advance_subscription(queue, end.consumer, position.tick, end.tick)
            )
        return max(position.tick, end.tick)

    again = "then call finish again"
    connection = DriverConnection(database, queue, end.consumer, lambda _client: None, again)
    with closing(connection):
        return queue, connection.call(advance)
