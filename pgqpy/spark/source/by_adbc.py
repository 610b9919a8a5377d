"""Reader through ADBC: the result of a query as Arrow batches, by binary COPY, parsed in C++."""

from __future__ import annotations

import os
from contextlib import closing
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import adbc_driver_postgresql
import pyarrow as pa
from adbc_driver_manager import AdbcConnection, AdbcStatement, OperationalError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgqpy.spark.source.packing import packed, unpacked

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

BATCH_BYTES = 1024 * 1024  # size of a batch on the wire; 256 KB is as fast, 16 MB is 10 % slower
SIZE_HINT = adbc_driver_postgresql.StatementOptions.BATCH_SIZE_HINT_BYTES.value

LOST = (OperationalError,)


@lru_cache(maxsize=8)
def _database(conninfo: str) -> Any:
    """Return ADBC's database object, which caches the server's types and holds no connection.

    Fetching the types takes a connection and 30 ms, three quarters of a short task.
    """
    return adbc_driver_postgresql.connect(_pinned(conninfo))


def _pinned(conninfo: str) -> str:
    """Pin the search_path in the DSN: the driver reads the catalogue when it connects."""
    options = conninfo_to_dict(conninfo).get("options") or os.environ.get("PGOPTIONS", "")
    return make_conninfo(conninfo, options=f"{options} -c search_path=pg_catalog,pg_temp".strip())


class Reader:
    """A connection that runs one query at a time."""

    def __init__(self, conninfo: str) -> None:
        """Connect; OperationalError if that fails."""
        self._connection = AdbcConnection(_database(conninfo))

    def script(self, statements: str) -> None:
        """Run statements without a result."""
        with closing(self._statement(statements)) as statement:
            statement.execute_update()

    def row(self, query: str) -> tuple[Any, ...] | None:
        """Return the first row of a query."""
        rows = [row for batch in self._rows(query) for row in batch.to_pylist()]
        return tuple(rows[0].values()) if rows else None

    def batches(self, query: str, names: Sequence[str]) -> Generator[pa.RecordBatch, None, None]:
        """Run a query with these columns and yield its rows."""
        for batch in self._rows(packed(query, names)):
            yield unpacked(batch, names)

    def close(self) -> None:
        """Close the connection, and with it the transaction."""
        self._connection.close()

    def _rows(self, query: str) -> Iterator[pa.RecordBatch]:
        with closing(self._statement(query)) as statement:
            stream, _ = statement.execute_query()
            with pa.RecordBatchReader.from_stream(stream) as batches:
                yield from batches

    def _statement(self, text: str) -> Any:
        statement = AdbcStatement(self._connection)
        statement.set_options(**{SIZE_HINT: str(BATCH_BYTES)})
        statement.set_sql_query(text)
        return statement


def sqlstate(error: BaseException) -> str | None:
    """Return the SQLSTATE of the driver's error, if it has one."""
    return getattr(error, "sqlstate", None)
