"""Reading of a partition in an executor: connect, lock, check for rotation, yield batches."""

from __future__ import annotations

import logging
from contextlib import closing
from typing import TYPE_CHECKING

from psycopg import errors, sql
from pyspark.sql.pandas.types import to_arrow_schema

from pgqpy.errors import QueueNotFound, RangeExpired
from pgqpy.spark.source.arrow_session import open_with_retries
from pgqpy.spark.source.conversion import to_spark_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pgqpy.spark.database import Database
    from pgqpy.spark.source.arrow_session import ArrowSession
    from pgqpy.spark.source.partitions import EventPartition

logger = logging.getLogger("pgqpy.spark")

# READ COMMITTED: the check must see a rotation that was committed while we waited for the lock.
# TRUNCATE ignores snapshots: with the check before the lock, the table could be empty without an
# error.
BEGIN = sql.SQL("begin isolation level read committed; lock table {} in access share mode")
LOW_TICK = sql.SQL("select queue_low_tick from pgq.queue where queue_id = {}")


def read(
    database: Database,
    partition: EventPartition,
    schema: StructType,
    *,
    fail_on_data_loss: bool,
) -> Iterator[pa.RecordBatch]:
    """Yield the events of a partition as batches with Spark's columns and types.

    Raises:
        QueueNotFound: the queue was dropped.
        RangeExpired: rotation removed events of the partition. Without `fail_on_data_loss`, log a
            warning and read the rest.
        ConnectionFailed: the server cannot be reached.
    """
    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    with closing(open_with_retries(database, partition.queue)) as session:
        _lock_and_check(session, partition, fail_on_data_loss=fail_on_data_loss)
        with closing(session.batches(partition.query)) as batches:
            for batch in batches:
                yield to_spark_batch(batch, arrow_schema, partition.finder)


def _lock_and_check(
    session: ArrowSession, partition: EventPartition, *, fail_on_data_loss: bool
) -> None:
    """Hold back rotation until the session closes, then check that no event is missing."""
    low_tick = LOW_TICK.format(partition.queue_id).as_string(None)
    try:
        session.execute(BEGIN.format(sql.SQL(partition.table)).as_string(None))
        found = [tick for batch in session.batches(low_tick) for tick in batch[0].to_pylist()]
    except (errors.UndefinedTable, errors.InvalidSchemaName) as error:
        raise _dropped(partition) from error
    if not found:
        raise _dropped(partition)
    (first,) = found
    if first <= partition.from_tick:
        return
    problem = (
        f"rotation removed events after tick {partition.from_tick} of queue {partition.queue!r} "
        f"before they were read: tick {first} is the first that can be read"
    )
    if fail_on_data_loss:
        raise RangeExpired(
            f"{problem}: start there (startingOffsets), or set failOnDataLoss to false to skip "
            "the removed events",
            queue=partition.queue,
            tick_id=partition.from_tick,
            first_tick=first,
        )
    logger.warning("%s: skipping the removed events, as failOnDataLoss is false", problem)


def _dropped(partition: EventPartition) -> QueueNotFound:
    return QueueNotFound(
        f"queue {partition.queue!r} (option queue) was dropped during the read: "
        "create it again, and start a query with a new checkpointLocation",
        queue=partition.queue,
    )
