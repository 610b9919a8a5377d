"""Reading of a partition in an executor: connect, lock, check the ticks, yield batches."""

from __future__ import annotations

import json
import logging
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import adbc_driver_manager as adbc
import adbc_driver_postgresql
import psycopg
from adbc_driver_manager._reader import AdbcRecordBatchReader  # the only one with SQLSTATEs
from psycopg import errors, sql
from psycopg.conninfo import make_conninfo
from pyspark.sql.pandas.types import to_arrow_schema

from pgqpy.client.opening import PG_17, PINNED, connection_failed
from pgqpy.errors import ConnectionFailed, NotFound, QueueNotFound, RangeExpired
from pgqpy.spark.connections import connect, with_retries
from pgqpy.spark.source.partitions import EventPartition, to_spark_batch
from pgqpy.sqlstates import BY_SQLSTATE

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from pgqpy.spark.connections import Database
    from pgqpy.spark.options import ReadOptions

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


logger = logging.getLogger("pgqpy.spark")

# READ COMMITTED: the check must see a rotation that was committed while we waited for the lock.
# TRUNCATE ignores snapshots: with the check before the lock, the table could be empty without an
# error.
BEGIN = sql.SQL("begin isolation level read committed; lock table {} in access share mode")

# The first tick after which no event was truncated, and whether the ticks are others than planned.
# Compaction may have removed the planned end. Then it kept the last tick of the same second. That
# may not be the next tick: a clock that was set back numbers ticks of other seconds in between. The
# next tick sees as much in any case. After a failover to a standby that lagged, or a restore from a
# backup, the number is that of a later tick, or of none. A repair rewrites the snapshots. In a
# restored dump that needs a repair, tick_event_sql raises PQ012.
CHECK = sql.SQL("""
    select q.queue_low_tick as low_tick,
           q.queue_low_tick <= {tick} and not coalesce(t.same, false) as changed,
           case when t.same and q.queue_low_tick <= t.tick_id
                then pgq.tick_event_sql(q.queue_name, t.tick_id, t.tick_id) end as query
      from pgq.queue q
      left join lateral (
            select tick_id,
                   case when tick_id = {tick}
                        then tick_time = {time} and tick_snapshot::text = {snapshot}
                        else exists (
                                select from pgq.tick kept
                                 where kept.tick_queue = q.queue_id and kept.tick_id > {tick}
                                   and date_trunc('second', kept.tick_time)
                                       = date_trunc('second', {time}))
                             and txid_snapshot_xmax(tick_snapshot)
                                 >= txid_snapshot_xmax({snapshot}::txid_snapshot) end as same
              from pgq.tick where tick_queue = q.queue_id and tick_id >= {tick}
             order by tick_id limit 1) t on true
     where q.queue_id = {queue}""")


def read(
    database: Database,
    partition: EventPartition,
    schema: StructType,
    *,
    fail_on_data_loss: bool,
) -> Iterator[pa.RecordBatch]:
    """Yield the events of a partition as batches with Spark's columns and types.

    Raises:
        QueueNotFound: the queue was dropped.
        RangeExpired: rotation removed events of the partition. Without `fail_on_data_loss`, log a
            warning and read the rest.
        NotFound: the queue has other ticks than those of the plan.
        DatabaseRestored: the queue was restored from a dump and needs repair_queue.
        ConnectionFailed: the server cannot be reached.
    """
    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    with closing(open_with_retries(database, partition.queue)) as session:
        _lock_and_check(session, partition, fail_on_data_loss=fail_on_data_loss)
        with closing(session.batches(partition.query)) as batches:
            for batch in batches:
                yield to_spark_batch(batch, arrow_schema, partition)


def _lock_and_check(
    session: ArrowSession, partition: EventPartition, *, fail_on_data_loss: bool
) -> None:
    """Hold back rotation until the session closes, then check that no event is missing."""
    end = partition.planned_end
    check = CHECK.format(
        queue=partition.queue_id, tick=end.tick_id, time=end.tick_time, snapshot=end.tick_snapshot
    )
    try:
        session.execute(BEGIN.format(sql.SQL(partition.table)).as_string(None))
        rows = [
            row for batch in session.batches(check.as_string(None)) for row in batch.to_pylist()
        ]
    except (errors.UndefinedTable, errors.InvalidSchemaName) as error:
        raise _dropped(partition) from error
    if not rows:
        raise _dropped(partition)
    if rows[0]["changed"]:
        raise _changed(partition)
    first = rows[0]["low_tick"]
    if first <= partition.from_tick:
        return
    problem = (
        f"rotation removed events after tick {partition.from_tick} of queue {partition.queue!r} "
        f"before they were read: tick {first} is the first that can be read"
    )
    if fail_on_data_loss:
        raise RangeExpired(
            f"{problem}. Load the DataFrame again, from there (startingOffsets="
            f"{json.dumps({partition.queue: first})}). A stream says what to do when you start it "
            "again. With failOnDataLoss=false the removed events are skipped",
            queue=partition.queue,
            tick_id=partition.from_tick,
            first_tick=first,
        )
    logger.warning("%s: skipping the removed events, as failOnDataLoss is false", problem)


def _dropped(partition: EventPartition) -> QueueNotFound:
    return QueueNotFound(
        f"queue {partition.queue!r} (option queue) was dropped during the read: "
        "create it again, and give a stream a new checkpointLocation",
        queue=partition.queue,
    )


def _changed(partition: EventPartition) -> NotFound:
    return NotFound(
        f"tick {partition.planned_end.tick_id} of queue {partition.queue!r} is not the one that "
        "this task was planned with: the server was restored from a backup, a standby that lagged "
        "took over, or the queue was repaired. Load the DataFrame, or start the query, again",
        queue=partition.queue,
        tick_id=partition.planned_end.tick_id,
        sqlstate="PQ005",
    )


class Reader:
    """What both readers share: their options and columns, and the reading of a partition."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a partition, in an executor."""
        if not isinstance(partition, EventPartition):
            return iter(())  # Spark adds a partition where a batch has none
        loss = self.options.fail_on_data_loss
        return read(self.options.database, partition, self.schema, fail_on_data_loss=loss)
