"""Read a query as Arrow batches through ADBC: the server's binary COPY, converted in C++."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adbc_driver_postgresql import StatementOptions, dbapi

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

BATCH_BYTES = 2 * 1024 * 1024  # of a batch on the wire; 16 MB read 10 % slower

LOST = (dbapi.OperationalError,)


class Reader:
    """One connection, and one query over it."""

    def __init__(self, conninfo: str) -> None:
        """Connect; OperationalError if there is no way."""
        self._connection = dbapi.connect(conninfo, autocommit=True)
        self._cursor = self._connection.cursor()
        self._cursor.adbc_statement.set_options(
            **{StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(BATCH_BYTES)}
        )

    def script(self, statements: str) -> None:
        """Run statements that return nothing."""
        self._cursor.executescript(statements)

    def row(self, query: str) -> tuple[Any, ...] | None:
        """Return the first row of a query."""
        self._cursor.execute(query)
        row: tuple[Any, ...] | None = self._cursor.fetchone()
        return row

    def batches(self, query: str) -> Iterator[pa.RecordBatch]:
        """Run a query and yield its rows."""
        self._cursor.execute(query)
        yield from self._cursor.fetch_record_batch()

    def cancel(self) -> None:
        """End a query that runs in another thread."""
        self._cursor.adbc_cancel()

    def close(self) -> None:
        """Close the connection, and with it the transaction."""
        self._cursor.close()
        self._connection.close()


def sqlstate(error: BaseException) -> str | None:
    """Return the SQLSTATE of what the driver raised, if it has one."""
    return getattr(error, "sqlstate", None)
