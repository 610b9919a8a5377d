"""Query results by binary COPY, decoded to Arrow columns by numpy without a loop over values."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from psycopg import errors, sql

from pgqpy.spark.source.columns import RETRY, TICK_ID, TIME, TXID

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from numpy.typing import NDArray
    from psycopg import Connection

    from pgqpy.spark.source.tick_finder import TickFinder

BLOCK_BYTES = 1024 * 1024  # of a batch; a larger row is a batch by itself
HEADER = 19  # octets before the first row: signature, flags, length of the header extension
TRAILER = 2  # octets after the last row
COLUMN_COUNT, LENGTH = 2, 4  # octets before the first value of a row, and before each value
NOT_NULL = ("ev_id", TIME, TXID)  # 64-bit numbers; a query selects them first
POSTGRES_EPOCH = (
    946_684_800_000_000  # microseconds from 1970 to 2000, where PostgreSQL's times begin
)
FIRST, LAST = -(2**63), 2**63 - 1  # PostgreSQL's infinities, and the ends of Spark's timestamps


class Block(NamedTuple):
    """Rows as the server sent them, and the position after each of them."""

    octets: bytearray
    ends: array[int]

    def to_batch(
        self, selected: Sequence[str], schema: pa.Schema, finder: TickFinder | None
    ) -> pa.RecordBatch:
        """Return the rows, which have the columns `selected`, with Spark's schema."""
        found = self._columns(selected)
        if finder is not None:
            found[TICK_ID] = pa.array(finder.find(found[TXID].to_numpy()))
        return pa.RecordBatch.from_arrays([found[name] for name in schema.names], schema=schema)

    def _columns(self, names: Sequence[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        numbers = [name for name in names if name in NOT_NULL]
        row_ends = np.frombuffer(self.ends, np.int64)
        ends = np.concatenate(([0], row_ends[:-1])) + COLUMN_COUNT  # of each row's previous value
        for name in numbers:
            values = self._gather(ends + LENGTH, ">i8")
            found[name] = _times(values) if name == TIME else pa.array(values)
            ends += LENGTH + 8
        for name in names[len(numbers) :]:
            lengths = self._gather(ends, ">i4")
            nulls = lengths < 0
            starts = ends + LENGTH
            if nulls.all():
                found[name] = pa.nulls(len(nulls), pa.int32() if name == RETRY else pa.string())
                ends = starts
            elif name == RETRY:
                values = self._gather(np.where(nulls, ends, starts), ">i4")
                found[name] = pa.array(values, mask=nulls)
                ends = starts + np.maximum(lengths, 0)
            else:
                ends = starts + np.maximum(lengths, 0)
                found[name] = self._texts(starts, ends, nulls)
        return found

    def _gather(self, starts: NDArray[Any], kind: str) -> NDArray[Any]:
        """Return the numbers that begin at these positions, in the machine's byte order."""
        size = np.dtype(kind).itemsize
        every = np.ndarray(len(self.octets) - size + 1, f"V{size}", self.octets, strides=1)
        found: NDArray[Any] = every[starts].view(kind)
        return found.astype(kind[1:])

    def _texts(self, starts: NDArray[Any], ends: NDArray[Any], nulls: NDArray[Any]) -> pa.Array:
        """Return the texts at these positions.

        Without a copy, the texts and the octets between them are the elements of an array. Arrow
        copies every other element.
        """
        offsets = np.empty(2 * len(starts), np.int32)
        offsets[0::2], offsets[1::2] = starts, ends
        elements = pa.StringArray.from_buffers(
            len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(self.octets)
        )
        return elements.take(pa.array(np.arange(0, len(offsets), 2), mask=nulls))


def read_blocks(connection: Connection[Any], query: str) -> Generator[Block, None, None]:
    """Run a query and yield its rows."""
    statement = sql.SQL("copy ({}) to stdout (format binary)").format(sql.SQL(query))
    receive = connection.pgconn.get_copy_data  # `for row in copy` would take twice as long
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        row = memoryview(copy.read())[HEADER:]
        length = len(row)
        octets, ends, end = bytearray(), array("q"), 0
        while length > TRAILER:
            octets += row
            end += length
            ends.append(end)
            if end >= BLOCK_BYTES:
                yield Block(octets, ends)
                octets, ends, end = bytearray(), array("q"), 0
            length, row = receive(0)  # waits
        if length < TRAILER:
            raise _error(connection)
        copy.read()  # the end of COPY
        if ends:
            yield Block(octets, ends)


def _times(microseconds: NDArray[Any]) -> pa.Array:
    """Return times, counted from 2000, as timestamps within the range of Spark's."""
    found = np.minimum(microseconds, LAST - POSTGRES_EPOCH) + POSTGRES_EPOCH
    return pa.array(np.where(microseconds == FIRST, FIRST, found)).view(pa.timestamp("us", "UTC"))


def _error(connection: Connection[Any]) -> Exception:
    """Return the error that ended COPY; the connection is idle then."""
    result = connection.pgconn.get_result()
    while connection.pgconn.get_result():
        pass
    assert result is not None  # noqa: S101  # COPY always ends with a result
    return errors.error_from_result(result)
