"""Event fields from Arrow batches: checks, and batches of a limited size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pgqpy.calls import PAYLOAD_LIMIT
from pgqpy.errors import InvalidEvent
from pgqpy.spark.sink.columns import FIELDS, EventColumns
from pgqpy.spark.sink.json_text import objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

BATCH_BYTES = 1 << 20  # larger batches are not faster


def split_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Split batches into batches of at most `BATCH_BYTES`, or one row; skip empty ones."""
    for batch in batches:
        if batch.num_rows <= 1 or batch.nbytes <= BATCH_BYTES:
            if batch.num_rows:
                yield batch
        else:
            half = batch.num_rows // 2
            yield from split_batches((batch.slice(0, half), batch.slice(half)))


def fields(columns: EventColumns, batch: pa.RecordBatch) -> list[pa.Array | None]:
    """Return the event fields of a batch as text columns; None for fields without a column.

    Raises:
        InvalidEvent: a type is null, a text contains a NUL or is too long.
        InvalidArgument: a column cannot be packed as JSON.
    """
    found = [None if n is None else batch.column(n) for n in columns.fields]
    if columns.event_type is not None:
        found[0] = pa.repeat(columns.event_type, batch.num_rows)
    if columns.packed:
        numbers, names = zip(*columns.packed, strict=True)
        found[1] = objects(names, [batch.column(n) for n in numbers])
    for name, column in zip(FIELDS, found, strict=True):
        if column is not None:
            _check(name, column)
    return found


def _check(name: str, column: pa.Array) -> None:
    if name == "type" and column.null_count:
        raise InvalidEvent("type is null in a row: fill it, or filter such rows out", field=name)
    longest = pc.max(pc.binary_length(column)).as_py() or 0
    if longest > PAYLOAD_LIMIT:
        raise InvalidEvent(
            f"{name} is {longest} octets in a row, over the limit of {PAYLOAD_LIMIT}: "
            "store it elsewhere and send a reference",
            field=name,
        )
    if _has_nul(column):
        raise InvalidEvent(
            f"{name} contains a NUL in a row, which PostgreSQL cannot store in text: remove it, "
            "or send base64",
            field=name,
        )


def _has_nul(column: pa.Array) -> bool:
    """Return whether a value contains a NUL.

    The first check is fast and looks at the whole buffer, which may contain rows of other batches.
    """
    octets = column.buffers()[2]
    if octets is None or octets.size == 0 or np.frombuffer(octets, np.uint8).min() > 0:
        return False
    return bool(pc.any(pc.match_substring(column, "\0")).as_py())


def column_names(found: Sequence[Any]) -> list[str]:
    """Return the columns of the event table for the fields that are present."""
    return [f"ev_{name}" for name, column in zip(FIELDS, found, strict=True) if column is not None]
