"""Where a pipeline's micro-batches go: folders of files, or the terminal.

Exactly once under SIGKILL, for every reader of parquet or JSON, by folders that are named after the
micro-batch: a micro-batch that is run again finds the same events (the ticks say which), and
overwrites its own folders whole. Spark's file sink would be simpler, but what counts in its folder
only its own log `_spark_metadata` knows: to any other reader the files of an attempt that was
killed are doubles. Nor can it write good and bad records in one query.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812  # Spark's own name for it

from pgqpy.errors import PgqError
from pgqpy.pipeline.parse import BATCH, DATE, EXTRAS, bad_records, good_records, parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pgqpy.pipeline.options import PipelineOptions

QUERY_ID = "sql.streaming.queryId"  # a local property that Spark sets
FIRST, LAST = "0001-01-01 00:00:00Z", "9999-12-31 00:00:00Z"  # of all calendars that readers have
SHOWN = 20  # rows of a micro-batch on the terminal


class MicroBatchFailed(PgqError):
    """A micro-batch could not be written."""


class MicroBatchCounts(NamedTuple):
    """What a micro-batch held."""

    events: int
    bad: int = 0


class MicroBatchWriter:
    """What foreachBatch calls. The error of the last failed micro-batch is in `error`."""

    def __init__(
        self,
        options: PipelineOptions,
        schema: StructType | None,
        wrote: Callable[[MicroBatchCounts, float], None],
    ) -> None:
        """Call `wrote` after each micro-batch, with the seconds that it took."""
        self._options = options
        self._schema = schema
        self._wrote = wrote
        self.error: Exception | None = None

    def __call__(self, events: DataFrame, batch_id: int) -> None:
        """Write one micro-batch."""
        try:
            began = time.monotonic()
            counts = self._write(events, batch_id)
            self._wrote(counts, time.monotonic() - began)
        except Exception as exc:  # noqa: BLE001  # kept for who follows the query, whatever it is
            # Spark searches the text of what is raised here by a regular expression that recurses:
            # a long stack trace overflows its stack, and the query ends without a reason.
            self.error = exc
            raise MicroBatchFailed from None

    def _write(self, events: DataFrame, batch_id: int) -> MicroBatchCounts:
        if self._options.types:
            events = events.where(F.col("ev_type").isin(*self._options.types))
        place = f"{BATCH}={_name(events, batch_id)}"
        self._clear(events.sparkSession, place)
        if events.isEmpty():  # a queue without events ticks too: no folder for that
            return MicroBatchCounts(0)
        if self._schema is None:
            return self._save_all(events, place)
        return self._save_parsed(parse(events, self._schema), self._schema, place)

    def _clear(self, spark: SparkSession, place: str) -> None:
        """Take away what an attempt that was killed has left.

        With another schema or other types this one may write nothing where that one did.
        """
        for root in filter(None, (self._options.to, self._options.bad_path)):
            _remove(spark, _folder(root, place))

    def _save_all(self, events: DataFrame, place: str) -> MicroBatchCounts:
        seen = Observation()
        columns = ("ev_id", "ev_time", "ev_type", "ev_data", *EXTRAS)
        counted = events.select(*columns).observe(seen, F.count(F.lit(1)).alias("events"))
        self._save(counted, self._options.to, place)
        return MicroBatchCounts(seen.get["events"])

    def _save_parsed(self, parsed: DataFrame, schema: StructType, place: str) -> MicroBatchCounts:
        seen = Observation()
        events, bad = F.count(F.lit(1)), F.count_if(~F.col("good"))
        counted = parsed.observe(seen, events.alias("events"), bad.alias("bad"))
        self._save(good_records(counted), self._options.to, place)
        counts = MicroBatchCounts(seen.get["events"], seen.get["bad"])
        if counts.bad:  # read again, and the same: cheaper than keeping every micro-batch
            self._save(bad_records(parsed, schema), self._options.bad_path, place)
        return counts

    def _save(self, records: DataFrame, root: str | None, place: str) -> None:
        if root is None:
            records.show(SHOWN, truncate=False)
            return
        dated = records.withColumn(DATE, _day(F.col("ev_time")))
        writer = dated.write.format(self._options.format).mode("overwrite").partitionBy(DATE)
        writer.save(_folder(root, place))


def _day(time: Column) -> Column:
    """Return the day of a time; the first or the last that every reader knows for those beyond."""
    first, last = (F.lit(text).cast("timestamp") for text in (FIRST, LAST))
    return F.to_date(F.least(F.greatest(time, first), last))


def _folder(root: str, place: str) -> str:
    return f"{root.rstrip('/')}/{place}"


def _remove(spark: Any, folder: str) -> None:
    """Remove a folder, if it is there, wherever Spark can write."""
    path = spark._jvm.org.apache.hadoop.fs.Path(folder)  # noqa: SLF001  # PySpark has no other way
    path.getFileSystem(spark._jsc.hadoopConfiguration()).delete(path, True)  # noqa: FBT003, SLF001  # as above


def _name(events: DataFrame, batch_id: int) -> str:
    """Name a micro-batch so that no other query's, and none after a lost checkpoint, is the same.

    The letter keeps readers from taking the name for a number: 1234567e-00000012 is one.
    """
    query = events.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    if query is None:
        raise MicroBatchFailed("Spark does not tell which query this is")
    return f"q{query[:8]}-{batch_id:08d}"
