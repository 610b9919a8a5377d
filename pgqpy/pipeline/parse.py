"""Parsing of event data: JSON objects to columns by a DDL schema, and reasons for bad records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812  # Spark's own name for it
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from pgqpy.errors import InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

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
