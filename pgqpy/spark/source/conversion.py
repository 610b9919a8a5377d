"""Conversion of Arrow batches from the server to the columns and types of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from pgqpy.spark.source.columns import TICK_ID, TIME, TXID

if TYPE_CHECKING:
    from pgqpy.spark.source.tick_finder import TickFinder

# As 64-bit microseconds since 1970, PostgreSQL's infinity and years after 294246 overflow to values
# below PostgreSQL's earliest time (4714 BC). They become Spark's last timestamp, and -infinity
# becomes Spark's first.
EARLIEST = -210_866_803_200_000_000  # microseconds since 1970
MINUS_INFINITY = -(2**63) + 946_684_800_000_000  # PostgreSQL's epoch is 2000
FIRST, LAST = -(2**63), 2**63 - 1


def to_spark_batch(
    batch: pa.RecordBatch, schema: pa.Schema, finder: TickFinder | None
) -> pa.RecordBatch:
    """Return a batch with the columns of `schema`, in its order and types."""
    arrays = [_column(batch, field, finder) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(batch: pa.RecordBatch, field: pa.Field, finder: TickFinder | None) -> Any:
    if field.name == TICK_ID and finder is not None:
        return pa.array(finder.find(batch.column(TXID).to_numpy(zero_copy_only=False)))
    column = batch.column(field.name)
    if field.name == TIME:
        column = _clamp_infinity(column)
    return column if column.type == field.type else column.cast(field.type)


def _clamp_infinity(times: Any) -> Any:
    counts = times.view(pa.int64())
    lowest = pc.min(counts).as_py()
    if lowest is None or lowest >= EARLIEST:
        return times
    wrapped = pc.less(counts, MINUS_INFINITY)
    minus = pc.equal(counts, MINUS_INFINITY)
    fixed = pc.if_else(wrapped, LAST, pc.if_else(minus, FIRST, counts))
    return fixed.view(times.type)
