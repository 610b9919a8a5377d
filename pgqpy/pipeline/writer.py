"""Writing of a pipeline's micro-batches to folders of files, or to the terminal.

Every reader of parquet or JSON sees each event exactly once, even after SIGKILL. A folder is named
after its micro-batch. A repeated micro-batch reads the same events, because its ticks are the same,
and overwrites its folder as a whole. Spark's file sink would be simpler, but only readers of its
log `_spark_metadata` know which files count: for all others, a killed attempt leaves duplicates.
It also cannot write good and bad records in one query.

Only a newer checkpoint of the same query can have written folders of later micro-batches: then this
one was restored from a backup, and its micro-batches would write those events again, into other
folders. So nothing is written. Removing those folders is left to the user: until their events are
written again, readers would miss them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812  # Spark's own name for it

from pgqpy.errors import PgqError
from pgqpy.pipeline.folders import find_later, join, list_some, remove
from pgqpy.pipeline.progress import Counts
from pgqpy.pipeline.records import BATCH, DATE, bad_records, good_records, parse
from pgqpy.spark.sink.writers import QUERY_ID

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pgqpy.pipeline.options import PipelineOptions

FIRST, LAST = "0001-01-01 00:00:00Z", "9999-12-31 00:00:00Z"  # the range that all readers support
SHOWN = 20  # rows of a micro-batch on the terminal


class MicroBatchFailed(PgqError):
    """A micro-batch could not be written."""


class CheckpointTooOld(PgqError):
    """The checkpoint is older than the files that its query has written."""


class MicroBatchWriter:
    """The function for foreachBatch. `error` is the error of the last failed micro-batch."""

    def __init__(
        self,
        options: PipelineOptions,
        schema: StructType | None,
        wrote: Callable[[Counts], None],
    ) -> None:
        """Call `wrote` after each micro-batch."""
        self._options = options
        self._schema = schema
        self._wrote = wrote
        self._had_bad = False  # the last micro-batch had bad records
        self._checked = False  # that no folder of a later micro-batch exists
        self.error: Exception | None = None

    def __call__(self, events: DataFrame, batch_id: int) -> None:
        """Write one micro-batch."""
        try:
            began = time.monotonic()
            counts = self._write(events, batch_id)
            self._wrote(counts._replace(seconds=time.monotonic() - began))
        except Exception as exc:  # noqa: BLE001  # any error, kept for the caller
            # Spark searches the raised text with a recursive regular expression. A long stack trace
            # overflows its stack, and the query ends without a reason.
            self.error = exc
            raise MicroBatchFailed from None

    def _write(self, events: DataFrame, batch_id: int) -> Counts:
        place = f"{BATCH}={_name(events, batch_id)}"
        roots = [root for root in (self._options.to, self._options.bad_path) if root]
        if not self._checked:
            _check_checkpoint(events.sparkSession, roots, place)
            self._checked = True
        # Files of an attempt that was killed. This one may write no file there, if the schema or
        # the types have changed since.
        for root in roots:
            remove(events.sparkSession, join(root, place))
        if self._options.to is None:
            return self._show(events)
        to = join(self._options.to, place)
        counts = self._save_both(events, lambda records: self._save(records, to), place)
        if counts.events == counts.bad:
            remove(events.sparkSession, to)
        return counts

    def _save_both(
        self, events: DataFrame, save_good: Callable[[DataFrame], None], place: str
    ) -> Counts:
        """Save the good records, and bad ones if there are any; read the events once if possible.

        Bad records need a second pass over the events. A query that had some keeps the next
        micro-batch's events on disk for it; else the second pass reads the queue again.
        """
        schema, capture = self._schema, self._options.capture
        parsed = parse(events, schema, capture=capture)
        if self._had_bad:
            parsed.persist(StorageLevel.DISK_ONLY)
        try:
            seen = Observation()
            save_good(self._good(parsed.observe(seen, *_numbers())))
            counts = Counts(seen.get["events"], seen.get["bad"])
            if counts.bad and self._options.bad_path is not None:
                bad = bad_records(parsed, schema, capture=capture)
                self._save(bad, join(self._options.bad_path, place))
        finally:
            if self._had_bad:
                parsed.unpersist()
        self._had_bad = counts.bad > 0
        return counts

    def _good(self, parsed: DataFrame) -> DataFrame:
        options = self._options
        return good_records(parsed, capture=options.capture, rescue=options.rescue)

    def _save(self, records: DataFrame, folder: str) -> None:
        writer = dated(records).write.format(self._options.file_format).mode("overwrite")
        writer.partitionBy(DATE).save(folder)

    def _show(self, events: DataFrame) -> Counts:
        schema, capture = self._schema, self._options.capture
        parsed = parse(events, schema, capture=capture).persist(StorageLevel.DISK_ONLY)
        counts = Counts(*parsed.agg(*_numbers()).collect()[0])
        if counts.events > counts.bad:
            self._good(parsed).show(SHOWN, truncate=False)
        if counts.bad:
            bad_records(parsed, schema, capture=capture).show(SHOWN, truncate=False)
        parsed.unpersist()
        return counts


def _numbers() -> tuple[Column, Column]:
    return F.count(F.lit(1)).alias("events"), F.count_if(~F.col("good")).alias("bad")


def dated(records: DataFrame) -> DataFrame:
    """Add the column for the day on which the event was inserted."""
    return records.withColumn(DATE, _day(F.col("ev_time")))


def _day(time: Column) -> Column:
    """Return the day of a time, limited to the range that all readers support."""
    first, last = (F.lit(text).cast("timestamp") for text in (FIRST, LAST))
    return F.to_date(F.least(F.greatest(time, first), last))


def _check_checkpoint(spark: SparkSession, roots: list[str], place: str) -> None:
    """Raise CheckpointTooOld if the query has written later micro-batches."""
    later = [path for root in roots for path in find_later(spark, root, place)]
    if later:
        raise CheckpointTooOld(
            f"the checkpoint is older than the files: micro-batch {place.rpartition('=')[2]} would "
            "write again what later ones of the same query have written. Bring the newer "
            "checkpoint back, or remove these folders, whose events are then written again, and "
            f"start again: {list_some(later)}"
        )


def _name(events: DataFrame, batch_id: int) -> str:
    """Return a name for a micro-batch that is unique across queries and lost checkpoints.

    It begins with a letter, because readers could take the rest for a number: 1234567e-00000012.
    """
    query = events.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    if query is None:
        raise MicroBatchFailed("this Spark passes no query id to foreachBatch")
    return f"q{query[:8]}-{batch_id:08d}"
