"""Arrow columns in PostgreSQL's binary COPY format, built by Arrow without a loop over rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

START = b"PGCOPY\n\xff\r\n\0" + bytes(8)
END = b"\xff\xff"
EMPTY = pa.scalar(b"", pa.binary())


def rows(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the COPY row for each index of these text columns."""
    head = len(columns).to_bytes(2, "big")
    fields = [field for column in columns for field in _prefixed(column)]
    return pc.binary_join_element_wise(
        pa.scalar(head, pa.binary()), *fields, EMPTY, null_handling="replace", null_replacement=b""
    )


def _prefixed(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the length of each value as four bytes, -1 for a null, and the values."""
    octets = column.cast(pa.binary())
    lengths = pc.fill_null(pc.binary_length(octets), -1).to_numpy(zero_copy_only=False)
    prefixes = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(4), len(column), [None, pa.py_buffer(lengths.astype(">i4"))]
    )
    return prefixes.cast(pa.binary()), octets


def octets(joined: pa.Array) -> memoryview:
    """Return the bytes of all values without a copy, which would take two thirds of the time."""
    _, offsets, values = joined.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int32)[joined.offset :]
    return memoryview(values)[bounds[0] : bounds[len(joined)]]
