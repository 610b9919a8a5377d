"""The columns of a pipeline. `--schema infer` finds them in the newest events, and keeps them."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from pyspark.sql.types import ArrayType, StructField, StructType

from pgqpy.errors import InvalidArgument
from pgqpy.pipeline.folders import read_text, write_text
from pgqpy.pipeline.options import INFER
from pgqpy.pipeline.records import RESERVED, STRICT, read_schema
from pgqpy.texts import escaped, noun

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType

    from pgqpy.pipeline.options import PipelineOptions
    from pgqpy.pipeline.progress import QueueMonitor

    Say = Callable[[str], None]

LOOKED_AT = 10_000  # events
# Spark refuses a number in the column for corrupt records. It infers no column without a name.
STRICT_FIELDS = {**STRICT, "mode": "DROPMALFORMED", "columnNameOfCorruptRecord": ""}


def find_schema(
    spark: SparkSession, options: PipelineOptions, monitor: QueueMonitor, say: Say
) -> StructType | None:
    """Return the schema of `--schema`; None without one.

    Inferred columns are kept in a file beside the data, and read from there by later runs: a column
    that changed its type by itself would make files that no reader can read together.

    Raises:
        InvalidArgument: the DDL is not valid, or there is nothing to infer columns from.
    """
    if options.schema != INFER:
        return read_schema(options.schema) if options.schema else None
    path = options.schema_path
    kept = read_text(spark, path) if path else None
    if kept is not None:
        say(f"columns of {path}: --schema {_quoted(kept.strip())}")
        return read_schema(kept)
    events = monitor.newest_events(LOOKED_AT, options.types)
    texts = [event.data for event in events if event.data is not None and _is_object(event.data)]
    where = f"in the last {len(events):,} {noun(len(events), 'event')} of queue {options.queue!r}"
    schema, left_out = infer(spark, texts)
    if not schema.fields:
        raise InvalidArgument(
            f"--schema infer: {where}, {len(texts):,} of them JSON objects, is no field to make a "
            "column of: start again when there are events, choose others by --type, or name the "
            "columns: --schema 'id BIGINT, total DOUBLE'",
            parameter="schema",
        )
    ddl = schema.toDDL()
    say(f"columns found {where}, {len(texts):,} of them JSON objects: --schema {_quoted(ddl)}")
    if left_out:
        names = escaped(", ".join(left_out))
        say(f"left out, the pipeline's own names or like another but for upper case: {names}")
    if path:
        write_text(spark, path, ddl)
        ddl = read_text(spark, path) or ddl  # that of another run, if it was the first
        say(f"columns kept in {path}: later runs read them there")
    return read_schema(ddl)


def infer(spark: SparkSession, texts: Sequence[str]) -> tuple[StructType, list[str]]:
    """Return the columns of JSON objects, ordered by name, and the names that were left out.

    Those are the pipeline's own names, and of names that differ only in case all but the last one:
    Spark writes no file with such columns.
    """
    lines = spark.sparkContext.parallelize(texts, 1)
    schema = spark.read.options(**STRICT_FIELDS).json(lines).schema
    left_out = [name for name in schema.names if name.lower() in RESERVED]
    usable = StructType([field for field in schema.fields if field.name not in left_out])
    return _distinct(usable, "", left_out), left_out


def _distinct(schema: StructType, path: str, left_out: list[str]) -> StructType:
    """Return the fields without those that differ from a later one only in case."""
    fields: dict[str, StructField] = {}
    for field in schema.fields:
        twin = fields.pop(field.name.lower(), None)
        if twin is not None:
            left_out.append(f"{path}{twin.name}")
        inner = _distinct_inside(field.dataType, f"{path}{field.name}.", left_out)
        fields[field.name.lower()] = StructField(field.name, inner)
    return StructType(list(fields.values()))


def _distinct_inside(kind: DataType, path: str, left_out: list[str]) -> DataType:
    if isinstance(kind, ArrayType):
        return ArrayType(_distinct_inside(kind.elementType, path, left_out))
    return _distinct(kind, path, left_out) if isinstance(kind, StructType) else kind


def _is_object(text: str) -> bool:
    """Return whether a text is a JSON object: Spark would infer from an array's elements too."""
    try:
        return isinstance(json.loads(text, parse_int=str), dict)
    except (ValueError, RecursionError):
        return False


def _quoted(ddl: str) -> str:
    """Return the text for a shell and a terminal: names in it come from events."""
    return shlex.quote(escaped(ddl))
