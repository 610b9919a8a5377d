"""Conversion of ADBC's batches to the columns and types of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pgqpy.spark.source.columns import TICK_ID, TIME, TXID

if TYPE_CHECKING:
    from pgqpy.tick_finder import TickFinder

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
