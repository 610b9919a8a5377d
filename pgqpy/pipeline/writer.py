"""Parsing of a pipeline's micro-batches, and writing to folders of files or to the terminal.

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
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812  # Spark's own name for it
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from pgqpy.errors import InvalidArgument, PgqError
from pgqpy.pipeline.progress import Counts
from pgqpy.spark.sink.writers import QUERY_ID

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from pgqpy.pipeline.options import PipelineOptions

SHOWN_FOLDERS = 10  # folders in an error message


def join(root: str, name: str) -> str:
    """Return the path of a folder with this name."""
    return f"{root.rstrip('/')}/{name}"


def remove(spark: Any, path: str) -> None:
    """Remove a folder, if it exists."""
    files, hadoop_path = _open(spark, path)
    files.delete(hadoop_path, True)  # noqa: FBT003  # recursively


def find_later(spark: Any, root: str, name: str) -> list[str]:
    """Return the folders of the same query's later micro-batches, in their order.

    `name` ends with the query's id and the number of the micro-batch, as in `…q3f2a91c0-00000012`.
    """
    files, hadoop_path = _open(spark, root)
    if not files.exists(hadoop_path):
        return []
    query, _, number = name.rpartition("-")
    # Java filters them: asking it for each name of a large lake would take minutes.
    later = spark._jvm.org.apache.hadoop.fs.GlobFilter(f"{query}-{_beyond(number)}")  # noqa: SLF001  # PySpark has no other way
    names = [found.getPath().getName() for found in files.listStatus(hadoop_path, later)]
    return [join(root, each) for each in sorted(names, key=lambda each: (len(each), each))]


def _beyond(number: str) -> str:
    """Return a glob pattern of the numbers beyond this one, with as many digits or more."""
    patterns = ["[0-9]" * len(number) + "[0-9]*"]
    for place, digit in enumerate(number):
        if digit != "9":
            rest = "[0-9]" * (len(number) - place - 1)
            patterns.append(f"{number[:place]}[{int(digit) + 1}-9]{rest}")
    return f"{{{','.join(patterns)}}}"


def list_some(paths: list[str]) -> str:
    """Return the paths as a text: all of them, or the first ones, the last and their number."""
    if len(paths) <= SHOWN_FOLDERS:
        return ", ".join(paths)
    return f"{', '.join(paths[: SHOWN_FOLDERS - 1])}, … {paths[-1]} ({len(paths)} folders)"


def _open(spark: Any, path: str) -> tuple[Any, Any]:
    """Return the file system of a path, and the path as it takes it."""
    hadoop_path = spark._jvm.org.apache.hadoop.fs.Path(path)  # noqa: SLF001  # PySpark has no other way
    return hadoop_path.getFileSystem(spark._jsc.hadoopConfiguration()), hadoop_path  # noqa: SLF001  # as above


EXTRAS = ("ev_extra1", "ev_extra2", "ev_extra3", "ev_extra4")
EVENT_SCHEMA = "ev_id BIGINT, ev_time TIMESTAMP, ev_type STRING, ev_data STRING, " + ", ".join(
    f"{name} STRING" for name in EXTRAS
)
DATE, BATCH = "ev_date", "ev_batch"  # the folders of a lake
CORRUPT = "_corrupt"
RESERVED = {"ev_id", "ev_time", "ev_type", "ev_data", *EXTRAS, DATE, BATCH, CORRUPT}
# Strict JSON: by default Spark also accepts single quotes and a bare NaN.
STRICT = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": CORRUPT,
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}


def read_schema(ddl: str) -> StructType:
    """Parse the DDL of a schema; InvalidArgument if it is invalid or names reserved columns."""
    try:
        schema = StructType.fromDDL(ddl)
    except AnalysisException as exc:
        raise _refused(str(exc).partition(" SQLSTATE")[0].partition("] ")[2] or str(exc)) from exc
    if not isinstance(schema, StructType) or not schema.fields:
        raise _refused("name each column and its type: 'branch INT, amount DECIMAL(10,2)'")
    names = [name.lower() for name in schema.names]
    for name in names:
        if names.count(name) > 1:
            raise _refused(f"column {name} appears twice")
        if name in RESERVED:
            raise _refused(f"column {name} is the pipeline's own: choose another name")
    return schema


def parse(events: DataFrame, schema: StructType) -> DataFrame:
    """Add the columns `record`, the object in ev_data, and `good`, whether it fits the schema."""
    # from_json silently ignores text after the first object, as in '{"a":1}{"a":2}'. Inside
    # '{"list":[…]}' such text becomes a second element or an error, unless it closes the list.
    # Then the data is read a second time as an object field, where a bracket is an error.
    read = events.withColumn("read", _read_wrapped("[", ArrayType(schema), "]"))
    may_close = F.col("ev_data").rlike(r"\}\s*\]")
    alone = F.when(may_close, _read_wrapped("", schema, "").getField(CORRUPT))
    fits = F.col(f"read.{CORRUPT}").isNull() & (F.size("read.list") == 1) & alone.isNull()
    with_record = read.withColumn("record", F.when(fits, F.try_element_at("read.list", F.lit(1))))
    complete = F.col("record").isNotNull()
    for field in schema.fields:
        if not field.nullable:
            complete = complete & F.col("record").getField(field.name).isNotNull()
    return with_record.withColumn("good", F.coalesce(complete, F.lit(False))).drop("read")  # noqa: FBT003  # a literal


def _read_wrapped(before: str, kind: DataType, after: str) -> Column:
    """Parse ev_data, between these brackets, as the field `list` of an object."""
    whole = StructType([StructField("list", kind), StructField(CORRUPT, StringType())])
    text = F.concat(F.lit(f'{{"list":{before}'), F.col("ev_data"), F.lit(f"{after}}}"))
    return F.from_json(text, whole, STRICT)


def good_records(parsed: DataFrame) -> DataFrame:
    """Return the good records: columns of the event and of its data."""
    return parsed.where("good").select("ev_id", "ev_time", "ev_type", "record.*", *EXTRAS)


def bad_records(parsed: DataFrame, schema: StructType) -> DataFrame:
    """Return the bad records: the unchanged event, and the reason."""
    direct = StructType([*schema.fields, StructField(CORRUPT, StringType())])
    bad = parsed.where("not good").withColumn("direct", F.from_json("ev_data", direct, STRICT))
    return bad.select(
        "ev_id", "ev_time", "ev_type", "ev_data", *EXTRAS, _reason(schema).alias("reason")
    )


def _reason(schema: StructType) -> Column:
    fields = F.concat_ws("; ", *(_problem(field) for field in schema.fields))
    nested = F.lit("a nested field does not fit its type")
    return (
        F.when(F.col("ev_data").isNull(), "no data")
        .when(F.from_json("ev_data", "MAP<STRING, STRING>", STRICT).isNull(), "not a JSON object")
        .when(fields != "", fields)
        .when(F.col(f"direct.{CORRUPT}").isNull(), "text after the JSON object")
        .otherwise(nested)
    )


def _problem(field: StructField) -> Column:
    """Return the error of one field; null if it was read, or is missing and may be."""
    text = F.get_json_object("ev_data", f"$['{field.name}']")
    unread = F.col("direct").getField(field.name).isNull()
    kind = field.dataType.simpleString().upper()
    wrong = F.when(unread & text.isNotNull(), f"{field.name} is not {kind}")
    return wrong if field.nullable else wrong.when(unread, f"{field.name} is missing")


def _refused(why: str) -> InvalidArgument:
    return InvalidArgument(f"--schema: {' '.join(why.split())}", parameter="schema")


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
            remove(events.sparkSession, join(root, place))
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
        writer.save(join(root, place))


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
