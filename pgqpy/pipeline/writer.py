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

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812  # Spark's own name for it

from pgqpy.errors import PgqError
from pgqpy.pipeline import folders
from pgqpy.pipeline.parse import BATCH, DATE, EXTRAS, bad_records, good_records, parse
from pgqpy.pipeline.progress import Counts
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
        if self._options.types:
            events = events.where(F.col("ev_type").isin(*self._options.types))
        place = f"{BATCH}={_name(events, batch_id)}"
        roots = [root for root in (self._options.to, self._options.bad_path) if root]
        if not self._checked:
            _check_checkpoint(events.sparkSession, roots, place)
            self._checked = True
        # Files of an attempt that was killed. This one may write no file there, if the schema or
        # the types have changed since.
        for root in roots:
            folders.remove(events.sparkSession, folders.join(root, place))
        if events.isEmpty():  # an idle queue has ticks too, and needs no folder
            return Counts(0)
        if self._schema is None:
            return self._save_all(events, place)
        return self._save_parsed(parse(events, self._schema), self._schema, place)

    def _save_all(self, events: DataFrame, place: str) -> Counts:
        seen = Observation()
        columns = ("ev_id", "ev_time", "ev_type", "ev_data", *EXTRAS)
        counted = events.select(*columns).observe(seen, F.count(F.lit(1)).alias("events"))
        self._save(counted, self._options.to, place)
        return Counts(seen.get["events"])

    def _save_parsed(self, parsed: DataFrame, schema: StructType, place: str) -> Counts:
        seen = Observation()
        events, bad = F.count(F.lit(1)), F.count_if(~F.col("good"))
        counted = parsed.observe(seen, events.alias("events"), bad.alias("bad"))
        self._save(good_records(counted), self._options.to, place)
        counts = Counts(seen.get["events"], seen.get["bad"])
        if counts.bad:  # reads the events again, which is cheaper than caching every batch
            self._save(bad_records(parsed, schema), self._options.bad_path, place)
        return counts

    def _save(self, records: DataFrame, root: str | None, place: str) -> None:
        if root is None:
            records.show(SHOWN, truncate=False)
            return
        dated = records.withColumn(DATE, _day(F.col("ev_time")))
        writer = dated.write.format(self._options.format).mode("overwrite").partitionBy(DATE)
        writer.save(folders.join(root, place))


def _day(time: Column) -> Column:
    """Return the day of a time, limited to the range that all readers support."""
    first, last = (F.lit(text).cast("timestamp") for text in (FIRST, LAST))
    return F.to_date(F.least(F.greatest(time, first), last))


def _check_checkpoint(spark: SparkSession, roots: list[str], place: str) -> None:
    """Raise CheckpointTooOld if the query has written later micro-batches."""
    later = [path for root in roots for path in folders.find_later(spark, root, place)]
    if later:
        raise CheckpointTooOld(
            f"the checkpoint is older than the files: micro-batch {place.rpartition('=')[2]} would "
            "write again what later ones of the same query have written. Bring the newer "
            "checkpoint back, or remove these folders, whose events are then written again, and "
            f"start again: {folders.list_some(later)}"
        )


def _name(events: DataFrame, batch_id: int) -> str:
    """Return a name for a micro-batch that is unique across queries and lost checkpoints.

    It begins with a letter, because readers could take the rest for a number: 1234567e-00000012.
    """
    query = events.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    if query is None:
        raise MicroBatchFailed("this Spark passes no query id to foreachBatch")
    return f"q{query[:8]}-{batch_id:08d}"
