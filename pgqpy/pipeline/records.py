"""The records of a micro-batch: good ones, that fit the schema, and bad ones, with the reason."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812  # Spark's own name for it
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from pgqpy.pipeline.options import refused

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

EXTRAS = ("ev_extra1", "ev_extra2", "ev_extra3", "ev_extra4")
EVENT_SCHEMA = "ev_id BIGINT, ev_time TIMESTAMP, ev_type STRING, ev_data STRING, " + ", ".join(
    f"{name} STRING" for name in EXTRAS
)
SEVERAL_SCHEMA = f"{EVENT_SCHEMA}, queue STRING"  # of several queues
QUEUE = "ev_queue"  # where there are several
DATE, BATCH = "ev_date", "ev_batch"  # the folders of a lake
CORRUPT = "_corrupt"
CHANGE = ("ev_table", "ev_op", "ev_key", "ev_row", "ev_old")  # of a captured table
RESCUED = "ev_rescued"
EVENT = ("ev_id", "ev_time", "ev_type", "ev_data", *EXTRAS)
RESERVED = {*EVENT, *CHANGE, QUEUE, RESCUED, DATE, BATCH, CORRUPT}
# The type of a change: the names of schema and table may contain dots.
CHANGE_TYPE = r"(?s)^(.+\..+)\.(insert|update|delete|truncate|snapshot)$"
# Strict JSON: by default Spark also accepts single quotes and a bare NaN.
STRICT = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": CORRUPT,
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}
DECODER = json.JSONDecoder(parse_int=str, parse_float=str)


def read_schema(ddl: str) -> StructType:
    """Parse the DDL of a schema; InvalidArgument if it is invalid or names reserved columns."""
    try:
        schema = StructType.fromDDL(ddl)
    except AnalysisException as exc:
        why = str(exc).partition(" SQLSTATE")[0].partition("] ")[2] or str(exc)
        raise refused("schema", " ".join(why.split())) from exc
    if not isinstance(schema, StructType) or not schema.fields:
        raise refused("schema", "name each column and its type: 'branch INT, amount DECIMAL(10,2)'")
    names = [name.lower() for name in schema.names]
    for name in names:
        if names.count(name) > 1:
            raise refused("schema", f"column {name} appears twice")
        if name in RESERVED:
            raise refused("schema", f"column {name} is the pipeline's own: choose another name")
    return schema


def parse(events: DataFrame, schema: StructType | None, *, capture: bool = False) -> DataFrame:
    """Add the columns `record`, the object in ev_data, and `good`, whether it fits the schema.

    Without a schema the record is ev_data as it is. With `capture` come `ev_table` and `ev_op`:
    an event that is no change is not good then, and a truncate, which has no row, is.
    """
    if schema is None:
        row = F.col("ev_data").alias("ev_row" if capture else "ev_data")
        parsed = events.withColumn("record", F.struct(row)).withColumn("good", F.lit(True))  # noqa: FBT003  # a literal
    else:
        parsed = _parse(events, schema)
    if not capture:
        return parsed
    kind = F.coalesce("ev_type", F.lit(""))
    table, op = (F.regexp_extract(kind, CHANGE_TYPE, number) for number in (1, 2))
    good = F.col("good") & (op != "") | (op == "truncate")
    return parsed.withColumns({"ev_table": table, "ev_op": op, "good": good})


def _parse(events: DataFrame, schema: StructType) -> DataFrame:
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


def good_records(parsed: DataFrame, *, capture: bool = False, rescue: bool = False) -> DataFrame:
    """Return the good records: columns of the event, or of the change, and of its data.

    With `rescue` the fields that have no column are a JSON object in a column of their own.
    """
    good = parsed.where("good")
    record = [F.col("record.*")]
    if rescue:
        named = frozenset(parsed.select("record.*").columns)
        rest = F.udf(lambda text: unnamed_fields(text, named), "string", useArrow=False)
        object_text = F.when(F.col("record").isNotNull(), F.col("ev_data"))
        record.append(rest(object_text).alias(RESCUED))
    if not capture:
        return good.select(*_queue(good), "ev_id", "ev_time", "ev_type", *record, *EXTRAS)
    key, old = F.col("ev_extra1").alias("ev_key"), F.col("ev_extra2").alias("ev_old")
    return good.select(*_queue(good), "ev_id", "ev_time", "ev_table", "ev_op", key, *record, old)


def _queue(events: DataFrame) -> list[Column]:
    return [F.col("queue").alias(QUEUE)] if "queue" in events.columns else []


# Spark's SQL has no function for this: all read numbers, and write 1.1 for 1.10.
def unnamed_fields(text: str | None, named: Collection[str]) -> str | None:
    """Return the other fields of a JSON object, spelled as they are; None if it has none."""
    if text is None:  # the row of a truncate
        return None
    kept = []
    place = _skip(text, text.index("{") + 1)
    try:
        while text[place] == '"':
            name, end = DECODER.raw_decode(text, place)
            _, end = DECODER.raw_decode(text, _skip(text, end))
            if name not in named:
                kept.append(text[place:end])
            place = _skip(text, end)
    except RecursionError:  # about 1,000 levels, which Spark may still read
        return text
    return f"{{{', '.join(kept)}}}" if kept else None


def _skip(text: str, place: int) -> int:
    """Return the next place of a name, a value or the end of an object."""
    while text[place] in " \t\r\n:,":
        place += 1
    return place


def bad_records(
    parsed: DataFrame, schema: StructType | None, *, capture: bool = False
) -> DataFrame:
    """Return the bad records: the unchanged event, and the reason."""
    bad = parsed.where("not good")
    reason = F.lit("not a change of a captured table")
    if schema is not None:
        direct = StructType([*schema.fields, StructField(CORRUPT, StringType())])
        bad = bad.withColumn("direct", F.from_json("ev_data", direct, STRICT))
        unfit = _reason(schema)
        reason = F.when(F.col("ev_op") == "", reason).otherwise(unfit) if capture else unfit
    event: list[Column | str] = [*_queue(bad), "ev_id", "ev_time", "ev_type", "ev_data", *EXTRAS]
    return bad.select(*event, reason.alias("reason"))


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
