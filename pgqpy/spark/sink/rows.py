"""Event fields from Arrow batches, as rows of PostgreSQL's binary COPY, and their fingerprint."""

from __future__ import annotations

import zlib
from collections import Counter
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pgqpy.calls import PAYLOAD_LIMIT
from pgqpy.errors import InvalidArgument, InvalidEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


EXTRAS = ("extra1", "extra2", "extra3", "extra4")
FIELDS = ("type", "data", *EXTRAS)
TEXT = ("string", "varchar", "char")


class EventColumns(NamedTuple):
    """The indexes of the columns that become the fields of an event.

    Attributes:
        fields: the columns of type, data, extra1..4; None if there is no such column.
        event_type: the type of every event; None if a column has the type.
    """

    fields: tuple[int | None, ...]
    event_type: str | None


def event_columns(schema: Sequence[tuple[str, str]], event_type: str | None) -> EventColumns:
    """Return the mapping for columns with these names and Spark types.

    Raises:
        InvalidArgument: a field has no column or several, a column has no field, or a column has
            the wrong type.
    """
    names = [name.lower() for name, _ in schema]
    for name, times in Counter(names).items():
        if times > 1:
            raise _refused(name, f"there are {times} columns {name}: rename or drop one")
    for (name, kind), field in zip(schema, names, strict=True):
        if field in FIELDS and not kind.startswith(TEXT):
            remedy = f'cast it: df.withColumn("{name}", col("{name}").cast("string"))'
            raise _refused(name, f"column {name} is {kind}, and must be string: {remedy}")
    _check_one_type(names, event_type)
    others = [name for name, _ in schema if name.lower() not in FIELDS]
    if others:
        remedy = 'drop them, or make them the data: to_json(struct("*"))'
        raise _refused(others[0], f"events have no field for {', '.join(others)}: {remedy}")
    if "data" not in names:
        raise _refused("data", "there is no column data: add one")
    fields = tuple(names.index(field) if field in names else None for field in FIELDS)
    return EventColumns(fields, event_type)


def _check_one_type(names: Sequence[str], event_type: str | None) -> None:
    if "type" in names and event_type is not None:
        problem = "option eventType and column type exclude each other: leave one out"
        raise _refused("eventType", problem)
    if "type" not in names and event_type is None:
        problem = 'events need a type: a column type, or .option("eventType", "paid")'
        raise _refused("eventType", problem)


def _refused(parameter: str, message: str) -> InvalidArgument:
    return InvalidArgument(message, parameter=parameter)


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
    """
    found = [None if n is None else batch.column(n) for n in columns.fields]
    if columns.event_type is not None:
        found[0] = pa.repeat(columns.event_type, batch.num_rows)
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


COPY_START = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_END = b"\xff\xff"
EMPTY = pa.scalar(b"", pa.binary())


def copy_rows(columns: Sequence[pa.Array]) -> pa.Array:
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


def copy_octets(joined: pa.Array) -> memoryview:
    """Return the bytes of all values without a copy, which would take two thirds of the time."""
    _, offsets, values = joined.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int32)[joined.offset :]
    return memoryview(values)[bounds[0] : bounds[len(joined)]]


_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, with about as many ones as zeros
_HALF = np.uint64(32)


def fingerprint(rows: pa.Array, columns: Sequence[str]) -> int:
    """Return the sum of the hashes of all rows as a signed 64-bit integer.

    It does not depend on the order of an epoch's events or their split into tasks. Spark repeats an
    epoch whose commit it did not record. If the ledger has the epoch, nothing is inserted, which is
    correct only for the same rows. With a checkpoint from a backup they differ.

    The rows hold values only, so the names of the columns are hashed before each.

    The hash mixes a CRC with multiplications. A CRC alone is linear: sums over different rows would
    often be equal.
    """
    start = zlib.crc32(" ".join(columns).encode())
    sums = np.fromiter(map(zlib.crc32, rows.to_pylist(), repeat(start)), np.uint64, len(rows))
    mixed = (sums + np.uint64(1)) * _FACTOR
    mixed = (mixed ^ (mixed >> _HALF)) * _FACTOR
    return combine([int(np.sum(mixed ^ (mixed >> _HALF), dtype=np.uint64))])


def combine(fingerprints: Iterable[int]) -> int:
    """Return the fingerprint of all rows, from the fingerprints of some."""
    total = sum(fingerprints) & 0xFFFFFFFFFFFFFFFF
    return total - (1 << 64) if total >> 63 else total
