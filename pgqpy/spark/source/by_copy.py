"""Reader without ADBC: the result of a query as Arrow batches, by COPY as CSV through psycopg."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
from psycopg import sql
from pyarrow import csv

from pgqpy.client import open_session
from pgqpy.spark.source.columns import TIME
from pgqpy.spark.source.conversion import LAST, MINUS_INFINITY

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

BLOCK_BYTES = 2 * 1024 * 1024  # CSV bytes of a batch; a larger row is a batch by itself

LOST = (psycopg.OperationalError,)
TYPES = {"ev_id": pa.int64(), "ev_txid": pa.int64(), "ev_retry": pa.int32(), TIME: pa.int64()}
# Times travel as microseconds, with the same numbers as ADBC: pyarrow cannot parse years BC, years
# after 9999 and infinities from text.
MICROSECONDS = sql.SQL("""case when not isfinite({time}) or {time} >= '294247-01-01'
    then case when {time} > 'epoch' then {last} else {first} end
    else (extract(epoch from {time}) * 1000000)::bigint end""").format(
    time=sql.Identifier(TIME), first=sql.Literal(MINUS_INFINITY), last=sql.Literal(LAST)
)


class Reader:
    """A connection that runs one query at a time."""

    def __init__(self, conninfo: str) -> None:
        """Connect; ConnectionFailed if that fails."""
        # It only reads tables of the schema pgq, and the planner has checked their owners.
        self._connection = open_session(conninfo, {}, kind=psycopg.Connection, any_owner=True)
        self._connection.prepare_threshold = None

    def script(self, statements: str) -> None:
        """Run statements without a result."""
        self._connection.execute(statements.encode())

    def row(self, query: str) -> tuple[Any, ...] | None:
        """Return the first row of a query."""
        return self._connection.execute(query.encode()).fetchone()

    def batches(self, query: str, names: Sequence[str]) -> Generator[pa.RecordBatch, None, None]:
        """Run a query with these columns and yield its rows."""
        chosen = [MICROSECONDS if name == TIME else sql.Identifier(name) for name in names]
        statement = sql.SQL("copy (select {} from ({}) e) to stdout (format csv)").format(
            sql.SQL(", ").join(chosen), sql.SQL(query)
        )
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            for block in _blocks(copy):
                yield from _parsed(block, names)

    def close(self) -> None:
        """Close the connection, and with it the transaction."""
        self._connection.close()


def sqlstate(error: BaseException) -> str | None:
    """Return the SQLSTATE of the driver's error, if it has one."""
    return error.sqlstate if isinstance(error, psycopg.Error) else None


def _blocks(rows: Iterable[Any]) -> Iterator[bytes]:
    """Join rows into blocks. Each message of the server is a whole row, so no row is split."""
    block = bytearray()
    for row in rows:
        block += row
        if len(block) >= BLOCK_BYTES:
            yield bytes(block)
            block.clear()
    if block:
        yield bytes(block)


def _parsed(block: bytes, names: Sequence[str]) -> list[pa.RecordBatch]:
    table = csv.read_csv(
        io.BytesIO(block),
        csv.ReadOptions(column_names=list(names), block_size=len(block) + 1, use_threads=False),
        csv.ParseOptions(newlines_in_values=True),
        csv.ConvertOptions(
            column_types={name: TYPES.get(name, pa.string()) for name in names},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return [_with_time(batch) for batch in table.to_batches()]


def _with_time(batch: pa.RecordBatch) -> pa.RecordBatch:
    if TIME not in batch.schema.names:
        return batch
    place = batch.schema.get_field_index(TIME)
    times = batch.column(place).cast(pa.timestamp("us", "UTC"))
    return batch.set_column(place, TIME, times)
