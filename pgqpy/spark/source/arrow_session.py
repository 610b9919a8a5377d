"""Sessions of ADBC, whose results are Arrow batches: psycopg checks the server before."""

from __future__ import annotations

from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import adbc_driver_manager as adbc
import adbc_driver_postgresql
import psycopg
from adbc_driver_manager._reader import AdbcRecordBatchReader  # the only one with SQLSTATEs
from psycopg.conninfo import make_conninfo

from pgqpy.client.dsn import connection_failed
from pgqpy.client.session_settings import PG_17, PINNED
from pgqpy.errors import ConnectionFailed
from pgqpy.spark.connections import connect, with_retries
from pgqpy.sqlstates import BY_SQLSTATE

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pgqpy.spark.database import Database

BATCH_BYTES = 1024 * 1024  # of a batch, about; a larger row is a batch by itself
SIZE_HINT = adbc_driver_postgresql.StatementOptions.BATCH_SIZE_HINT_BYTES.value
# Sent with the connection's parameters: ADBC queries the catalogue before it can run our SQL, with
# operators that a search_path would find elsewhere. The timeouts are off because Spark may pause
# between two batches.
SETTINGS = {
    **PINNED,
    "default_transaction_read_only": "on",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "transaction_timeout": "0",
    "enable_seqscan": "off",
    "jit": "off",
}
POOLER = (
    "Spark's source cannot read through a pooler: its settings are parameters of the connection, "
    "which poolers drop: connect directly to the server"
)


class ArrowSession:
    """A read-only session that runs one query at a time; it raises psycopg's errors and pgqpy's."""

    def __init__(self, conninfo: str) -> None:
        with _errors_of_psycopg():
            self._connection = adbc.AdbcConnection(_database(conninfo))

    def execute(self, statements: str) -> None:
        """Run statements without a result."""
        with _errors_of_psycopg(), self._statement(statements) as statement:
            statement.execute_update()

    def batches(self, query: str) -> Generator[Any, None, None]:
        """Run a query and yield its rows as batches. Closing the generator cancels the query."""
        with _errors_of_psycopg(), self._statement(query) as statement:
            stream, _ = statement.execute_query()
            with closing(AdbcRecordBatchReader._import_from_c(stream.address)) as batches:  # noqa: SLF001  # as ADBC's own dbapi does
                try:
                    yield from batches
                except GeneratorExit:
                    with suppress(adbc.Error):  # the server may be gone
                        self._connection.cancel()
                    raise

    def close(self) -> None:
        """Close the connection, and with it the transaction."""
        self._connection.close()

    def _statement(self, text: str) -> Any:
        statement = adbc.AdbcStatement(self._connection)
        statement.set_options(**{SIZE_HINT: str(BATCH_BYTES)})
        statement.set_sql_query(text)
        return statement


def open_with_retries(database: Database, label: str) -> ArrowSession:
    """Connect psycopg for its checks and errors, then ADBC to the same server.

    The checks, the errors and the retries are those of `connect_with_retries`. ConnectionFailed is
    also raised for a pooler, before ADBC connects.
    """
    return with_retries(lambda: _open(database, label))


def _open(database: Database, label: str) -> ArrowSession:
    with connect(database, label) as client:
        connection = client.connection
        (pid,) = connection.execute("select pg_backend_pid()").fetchone() or (0,)
        if pid != connection.info.backend_pid:
            raise ConnectionFailed(POOLER)
        conninfo = _same_server(connection.info)
    try:
        return ArrowSession(conninfo)
    except psycopg.Error as error:
        raise connection_failed(error, conninfo) from error


def _same_server(info: psycopg.ConnectionInfo) -> str:
    """Return a DSN for the very server of a connection: its own may name several."""
    named = info.get_parameters()
    named.pop("target_session_attrs", None)  # a session that is read-only would not do
    settings = (
        "-c {}={}".format(name, value.replace(" ", "\\ "))
        for name, value in SETTINGS.items()
        if name != "transaction_timeout" or info.server_version >= PG_17
    )
    ours = {
        "host": info.host,
        "hostaddr": info.hostaddr,
        "port": str(info.port),
        "password": info.password,
        "options": " ".join([info.options, *settings]),
    }
    return make_conninfo(**{name: value for name, value in {**named, **ours}.items() if value})


@lru_cache(maxsize=8)
def _database(conninfo: str) -> Any:
    """Return ADBC's database, which has asked the server for its types and holds no connection.

    Asking takes another connection and 30 ms, most of the time of a short task.
    """
    return adbc_driver_postgresql.connect(conninfo)


@contextmanager
def _errors_of_psycopg() -> Iterator[None]:
    """Raise ADBC's errors as psycopg's, those of the queue as pgqpy's.

    Psycopg's have the server's message alone, pgqpy's also the hint, which says what to do.
    """
    try:
        yield
    except adbc.Error as error:
        details: dict[Any, bytes] = dict(error.details or ())
        message = details.get(b"PG_DIAG_MESSAGE_PRIMARY", str(error).encode()).decode()
        state = error.sqlstate or ""
        if state.startswith("PQ") and state in BY_SQLSTATE:
            hint = details.get(b"PG_DIAG_MESSAGE_HINT", b"").decode()
            raise BY_SQLSTATE[state](f"{message}: {hint}", sqlstate=state) from None
        raise _error_class(error.sqlstate)(message) from None


def _error_class(sqlstate: str | None) -> type[psycopg.Error]:
    """Return psycopg's class; a lost connection has no SQLSTATE."""
    if sqlstate is None:
        return psycopg.OperationalError
    try:
        return psycopg.errors.lookup(sqlstate)
    except KeyError:
        return psycopg.DatabaseError
