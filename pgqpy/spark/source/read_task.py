"""Reading of a partition in an executor: connect, lock, check the ticks, yield batches."""

from __future__ import annotations

import logging
from contextlib import closing
from typing import TYPE_CHECKING

from psycopg import errors, sql
from pyspark.sql.pandas.types import to_arrow_schema

from pgqpy.errors import NotFound, QueueNotFound, RangeExpired
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

# The first tick after which no event was truncated, and whether the ticks are others than planned.
# Compaction may have removed the planned end. Then it kept the last tick of the same second. That
# may not be the next tick: a clock that was set back numbers ticks of other seconds in between. The
# next tick sees as much in any case. After a failover to a standby that lagged, or a restore from a
# backup, the number is that of a later tick, or of none. A repair rewrites the snapshots. In a
# restored dump that needs a repair, tick_event_sql raises PQ012.
CHECK = sql.SQL("""
    select q.queue_low_tick as low_tick,
           q.queue_low_tick <= {tick} and not coalesce(t.same, false) as changed,
           case when t.same and q.queue_low_tick <= t.tick_id
                then pgq.tick_event_sql(q.queue_name, t.tick_id, t.tick_id) end as query
      from pgq.queue q
      left join lateral (
            select tick_id,
                   case when tick_id = {tick}
                        then tick_time = {time} and tick_snapshot::text = {snapshot}
                        else exists (
                                select from pgq.tick kept
                                 where kept.tick_queue = q.queue_id and kept.tick_id > {tick}
                                   and date_trunc('second', kept.tick_time)
                                       = date_trunc('second', {time}))
                             and txid_snapshot_xmax(tick_snapshot)
                                 >= txid_snapshot_xmax({snapshot}::txid_snapshot) end as same
              from pgq.tick where tick_queue = q.queue_id and tick_id >= {tick}
             order by tick_id limit 1) t on true
     where q.queue_id = {queue}""")


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
        NotFound: the queue has other ticks than those of the plan.
        DatabaseRestored: the queue was restored from a dump and needs repair_queue.
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
    end = partition.planned_end
    check = CHECK.format(
        queue=partition.queue_id, tick=end.tick_id, time=end.tick_time, snapshot=end.tick_snapshot
    )
    try:
        session.execute(BEGIN.format(sql.SQL(partition.table)).as_string(None))
        rows = [
            row for batch in session.batches(check.as_string(None)) for row in batch.to_pylist()
        ]
    except (errors.UndefinedTable, errors.InvalidSchemaName) as error:
        raise _dropped(partition) from error
    if not rows:
        raise _dropped(partition)
    if rows[0]["changed"]:
        raise _changed(partition)
    first = rows[0]["low_tick"]
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


def _changed(partition: EventPartition) -> NotFound:
    return NotFound(
        f"tick {partition.planned_end.tick_id} of queue {partition.queue!r} is not the one that "
        "this task was planned with: the server was restored from a backup, a standby that lagged "
        "took over, or the queue was repaired. Start the query again, so that it is planned anew",
        queue=partition.queue,
        tick_id=partition.planned_end.tick_id,
        sqlstate="PQ005",
    )
