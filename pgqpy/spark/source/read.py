"""Reading of a partition in an executor: connect, lock, check for rotation, yield batches."""

from __future__ import annotations

import logging
from contextlib import closing
from typing import TYPE_CHECKING, Any, Protocol

from psycopg import sql

from pgqpy.errors import QueueNotFound, RangeExpired
from pgqpy.spark.connect import with_retries
from pgqpy.spark.source.conversion import to_spark_batch

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from types import ModuleType

    import pyarrow as pa

    from pgqpy.spark.database import Database
    from pgqpy.spark.source.columns import Projection
    from pgqpy.spark.source.partitions import EventPartition

logger = logging.getLogger("pgqpy.spark")

# READ COMMITTED: the check must see a rotation that was committed while we waited for the lock.
# TRUNCATE ignores snapshots: with the check before the lock, the table could be empty without an
# error. The timeouts are off because Spark may pause between two batches.
BEGIN = sql.SQL("""
    begin isolation level read committed;
    set local search_path = pg_catalog, pg_temp;
    set local standard_conforming_strings = on;
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
LOW_TICK = sql.SQL("select queue_low_tick from pgq.queue where queue_id = {}")
DROPPED = ("42P01", "3F000")  # no such table, no such schema


class Reader(Protocol):
    """A connection that returns Arrow batches; `by_adbc` and `by_copy` have one each."""

    def script(self, statements: str) -> None:
        """Run statements that return nothing."""

    def row(self, query: str) -> tuple[Any, ...] | None:
        """Return the first row of a query."""

    def batches(self, query: str, names: Sequence[str]) -> Generator[pa.RecordBatch, None, None]:
        """Run a query of these columns and yield its rows."""

    def close(self) -> None:
        """Close the connection."""


def reader_module() -> ModuleType:
    """Return `by_adbc` if ADBC is installed, else `by_copy`."""
    try:
        from pgqpy.spark.source import by_adbc  # noqa: PLC0415  # the package may be missing
    except ImportError:
        from pgqpy.spark.source import by_copy  # noqa: PLC0415  # as above

        return by_copy
    return by_adbc


def read(
    database: Database,
    partition: EventPartition,
    projection: Projection,
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
    module = reader_module()
    application = f"pgqpy spark {partition.queue}"
    reader: Reader = with_retries(
        lambda: module.Reader(database.conninfo(application)), module.LOST, database
    )
    schema = projection.arrow_schema()
    with closing(reader):
        try:
            _lock_and_check(reader, partition, fail_on_data_loss=fail_on_data_loss)
        except Exception as error:
            if module.sqlstate(error) in DROPPED:
                raise _dropped(partition) from error
            raise
        with closing(reader.batches(partition.query, projection.selected)) as batches:
            for batch in batches:
                yield to_spark_batch(batch, schema, partition.finder)


def _lock_and_check(reader: Reader, partition: EventPartition, *, fail_on_data_loss: bool) -> None:
    """Hold back rotation until the connection closes, then check that no event is missing."""
    reader.script(BEGIN.format(sql.SQL(partition.table)).as_string(None))
    row = reader.row(LOW_TICK.format(sql.Literal(partition.queue_id)).as_string(None))
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
