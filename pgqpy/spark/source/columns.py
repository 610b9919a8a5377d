"""Columns of the source: names, Spark types, and the conversion of ADBC's batches to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pgqpy.errors import InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

    from pgqpy.tick_ranges import TickFinder

TICK_ID = "tick_id"
TXID = "ev_txid"
TIME = "ev_time"
TYPES: dict[str, DataType] = {
    "ev_id": LongType(),
    TIME: TimestampType(),
    TXID: LongType(),
    "ev_retry": IntegerType(),
    "ev_type": StringType(),
    "ev_data": StringType(),
    "ev_extra1": StringType(),
    "ev_extra2": StringType(),
    "ev_extra3": StringType(),
    "ev_extra4": StringType(),
    TICK_ID: LongType(),
}
NEVER_NULL = frozenset({"ev_id", TIME, TXID, TICK_ID})


def whole_schema() -> StructType:
    """Return the default schema: all columns of an event, and tick_id."""
    return StructType([StructField(name, kind) for name, kind in TYPES.items()])


def selected_columns(schema: StructType) -> list[str]:
    """Return the columns to select on the server. tick_id is computed from ev_txid."""
    wanted = {*schema.names, TXID} if TICK_ID in schema.names else {*schema.names}
    return [name for name in TYPES if name in wanted - {TICK_ID}]


def checked_schema(schema: StructType) -> StructType:
    """Return the schema of a user; InvalidArgument for columns that events do not have."""
    for field in schema.fields:
        if schema.names.count(field.name) > 1:
            raise InvalidArgument(
                f"schema: column {field.name} appears twice: name it once",
                parameter="schema",
            )
        wanted = TYPES.get(field.name)
        if wanted is None:
            raise InvalidArgument(
                f"schema: events have no column {field.name!r}, only {', '.join(TYPES)}: "
                "parse ev_data with from_json",
                parameter="schema",
            )
        if not field.nullable and field.name not in NEVER_NULL:
            raise InvalidArgument(
                f"schema: column {field.name} may be null: declare it without NOT NULL",
                parameter="schema",
            )
        if field.dataType != wanted:
            raise InvalidArgument(
                f"schema: column {field.name} is {wanted.simpleString()}, "
                f"not {field.dataType.simpleString()}: cast it after reading",
                parameter="schema",
            )
    if not schema.fields:
        raise InvalidArgument("schema: name at least one column", parameter="schema")
    return schema


# In microseconds since 1970, the last years of PostgreSQL and its infinity are too large for 64
# bits: ADBC lets them wrap to values below its earliest time (4714 BC). Spark's last timestamp
# stands for them, and Spark's first one for -infinity.
EARLIEST = -210_866_803_200_000_000
MINUS_INFINITY = -(2**63) + 946_684_800_000_000  # PostgreSQL counts from 2000
FIRST, LAST = -(2**63), 2**63 - 1


def to_spark_batch(
    batch: pa.RecordBatch, schema: pa.Schema, finder: TickFinder | None
) -> pa.RecordBatch:
    """Return a batch with the columns of `schema`, in its order and types."""
    found = dict(zip(batch.schema.names, batch.columns, strict=True))
    if finder is not None:
        found[TICK_ID] = pa.array(finder.find(found[TXID].to_numpy()))
    if TIME in found:
        found[TIME] = _within_range(found[TIME])
    return pa.RecordBatch.from_arrays([found[name] for name in schema.names], schema=schema)


def _within_range(times: Any) -> Any:
    counts = times.view(pa.int64()).to_numpy()
    if counts.min(initial=0) >= EARLIEST:
        return times
    fixed = np.where(counts < MINUS_INFINITY, LAST, counts)
    fixed[counts == MINUS_INFINITY] = FIRST
    return pa.array(fixed).view(times.type)
