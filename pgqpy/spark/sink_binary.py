"""Columns of Arrow as PostgreSQL's binary COPY, put together by Arrow without a loop over rows.

Measured with a million events of 250 octets, into an unlogged table: 0.46 s, and 0.59 s by
adbc_ingest, which needs one more package and one more connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from uuid import UUID

START = b"PGCOPY\n\xff\r\n\0" + bytes(8)
END = b"\xff\xff"
NULL = b"\xff\xff\xff\xff"
TEXT_OID = 25
_EMPTY = pa.scalar(b"", pa.binary())


def rows(columns: Sequence[pa.Array]) -> bytes:
    """Write a row for each index of some columns of text."""
    head = len(columns).to_bytes(2, "big")
    parts = [part for column in columns for part in _prefixed(column)]
    return _octets(_join(pa.scalar(head, pa.binary()), *parts))


def piece(attempt: UUID, number: int, columns: Sequence[pa.Array | None]) -> Iterator[bytes]:
    """Write one row for all: the attempt, the piece's number, and an array of each column."""
    yield (2 + len(columns)).to_bytes(2, "big")
    yield _int4(16) + attempt.bytes
    yield _int4(4) + _int4(number)
    for column in columns:
        if column is None:
            yield NULL
            continue
        octets = _octets(_join(*_prefixed(column)))
        nulls = int(column.null_count > 0)
        head = _int4(1, nulls, TEXT_OID, len(column), 1)  # one dimension, from 1
        yield _int4(len(head) + len(octets)) + head
        yield octets


def _prefixed(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return each value's length as four octets, -1 for a null, and the values."""
    octets = column.cast(pa.binary())
    lengths = pc.fill_null(pc.binary_length(octets), -1).to_numpy(zero_copy_only=False)
    prefixes = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(4), len(column), [None, pa.py_buffer(lengths.astype(">i4"))]
    )
    return prefixes.cast(pa.binary()), octets


def _join(*parts: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(
        *parts, _EMPTY, null_handling="replace", null_replacement=b""
    )


def _octets(joined: pa.Array) -> bytes:
    """Return all values of an array as they lie side by side in memory."""
    _, offsets, values = joined.buffers()
    if values is None:
        return b""
    bounds = np.frombuffer(offsets, dtype=np.int32)[joined.offset :]
    return bytes(memoryview(values)[bounds[0] : bounds[len(joined)]])


def _int4(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(4, "big", signed=True) for number in numbers)
