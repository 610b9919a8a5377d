"""Reading of a partition in an executor: connect, lock, check for rotation, yield batches."""

from __future__ import annotations

import logging
from contextlib import closing
from typing import TYPE_CHECKING

from psycopg import errors, sql
from pyspark.sql.pandas.types import to_arrow_schema

from pgqpy.errors import QueueNotFound, RangeExpired
from pgqpy.spark.connections import connect_with_retries
from pgqpy.spark.source.binary_copy import read_blocks
from pgqpy.spark.source.columns import selected_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pgqpy.client import Client
    from pgqpy.spark.database import Database
    from pgqpy.spark.source.partitions import EventPartition

logger = logging.getLogger("pgqpy.spark")

# READ COMMITTED: the check must see a rotation that was committed while we waited for the lock.
# TRUNCATE ignores snapshots: with the check before the lock, the table could be empty without an
# error. The timeouts are off because Spark may pause between two batches.
BEGIN = sql.SQL("""
    begin isolation level read committed;
    set local statement_timeout = 0;
    set local idle_in_transaction_session_timeout = 0;
    do $$ begin
        if current_setting('server_version_num')::int >= 170000 then
            set local transaction_timeout = 0;
        end if;
    end $$;
    set local enable_seqscan = off;
    set local jit = off;
    lock table {} in access share mode
""")
LOW_TICK = "select queue_low_tick from pgq.queue where queue_id = %s"


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
    selected, arrow_schema = selected_columns(schema), to_arrow_schema(schema, timezone="UTC")
    with connect_with_retries(database, partition.queue) as client:
        _lock_and_check(client, partition, fail_on_data_loss=fail_on_data_loss)
        with closing(read_blocks(client.connection, partition.query)) as blocks:
            for block in blocks:
                yield block.to_batch(selected, arrow_schema, partition.finder)


def _lock_and_check(client: Client, partition: EventPartition, *, fail_on_data_loss: bool) -> None:
    """Hold back rotation until the connection closes, then check that no event is missing."""
    try:
        client.connection.execute(BEGIN.format(sql.SQL(partition.table)))
        row = client.connection.execute(LOW_TICK, [partition.queue_id]).fetchone()
    except (errors.UndefinedTable, errors.InvalidSchemaName) as error:
        raise _dropped(partition) from error
    if row is None:
        raise _dropped(partition)
    first = int(row[0])
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
