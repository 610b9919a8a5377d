"""The runner of calls over a connection that other tasks or threads may use."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncCursor
from psycopg.errors import InFailedSqlTransaction
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import tuple_row
from psycopg.transaction import OutOfOrderTransactionNesting

from pgqpy import calls, errors
from pgqpy.client._rows import NullSafeListDumper, bounded, failed_call
from pgqpy.client.exclusive import ENDED, Block, exclusive_async
from pgqpy.client.opening import call_for, check_encoding
from pgqpy.errors import InvalidArgument, PgqError
from pgqpy.sqlstates import from_database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from psycopg import AsyncTransaction

    from pgqpy.calls import Call, Row


@asynccontextmanager
async def inner_transaction(connection: AsyncConnection[Any]) -> AsyncIterator[AsyncTransaction]:
    """Open a transaction or savepoint for one call of pgqpy. The caller holds the lock."""
    lock = exclusive_async(connection)
    # Around psycopg's own count: in between, a call seems to be made in one block less, and is not
    # refused. The other way round it would be refused after a block that was never its own.
    lock.inner += 1
    try:
        async with closing_transaction(connection) as opened:
            yield opened
    finally:
        lock.inner -= 1


@asynccontextmanager
async def closing_transaction(connection: AsyncConnection[Any]) -> AsyncIterator[AsyncTransaction]:
    """Open psycopg's transaction(); close the connection if it stays open after its block.

    Later calls would commit nothing. The transaction stays open if its task is cancelled while it
    waits for psycopg's lock, or if two blocks cross: then neither COMMIT nor ROLLBACK is sent.
    """
    opened: AsyncTransaction | None = None
    try:
        async with connection.transaction() as opened:
            yield opened
    except OutOfOrderTransactionNesting:
        close(connection)
        raise
    finally:
        if opened is not None and opened.status == opened.Status.ACTIVE:
            close(connection)


def close(connection: AsyncConnection[Any]) -> None:
    """Close a connection through libpq.

    psycopg's close() would return it to a pool that has close_returns while it is in use; the
    close() of a handler's connection refuses.
    """
    connection.pgconn.finish()


IN_PIPELINE = (
    "a pipeline is open on this connection: call pgqpy before or after it, or over another one"
)


class CallOrigin(NamedTuple):
    """Where a call was made: how deep in blocks, and the innermost of client.transaction()."""

    depth: int
    block: Block | None = None


class AsyncCursors:
    """Opens cursors of our own kind, whatever factories the application set, and closes them."""

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        """Take the connection as it is."""
        if not isinstance(connection, AsyncConnection):
            kind = type(connection).__name__
            how = call_for(connection) or "pgqpy.connect_async(dsn) opens one"
            raise TypeError(f"a psycopg AsyncConnection is needed, not {kind}: {how}")
        self.connection = connection
        self.exclusive = exclusive_async(connection)
        self._ended_before = self.exclusive.ended  # blocks, when this client was made
        self._left_open: set[str] = set()

    def status(self) -> TransactionStatus:
        """Return the state of the connection's transaction."""
        return self.connection.info.transaction_status

    def alone(self) -> bool:
        """Whether a statement now would be a transaction of its own."""
        return self.connection.autocommit and self.status() == TransactionStatus.IDLE

    async def is_alone(self) -> bool:
        """Say the same once no statement runs: a reader may close its cursor at any time."""
        async with self.connection.lock:
            return self.alone()

    def origin(self) -> CallOrigin:
        """Return the transaction() blocks of the application that a call is made in."""
        blocks = self.connection._num_transactions  # noqa: SLF001  # it has no public name
        return CallOrigin(blocks - self.exclusive.inner, *self.exclusive.blocks[-1:])

    def refuse_after_block(self, origin: CallOrigin) -> None:
        """Raise InFailedSqlTransaction if the block in which a call was made has ended.

        This happens when one of several tasks fails: gather() raises, the block is rolled back, and
        the other tasks go on. Sent now, their calls would be committed alone, or with an outer
        block.
        """
        block, open_blocks = origin.block, self.exclusive.blocks
        if self.origin().depth < origin.depth or (block and block not in open_blocks):
            raise InFailedSqlTransaction(ENDED)
        self.refuse_left()

    def refuse_left(self) -> None:
        """Raise InFailedSqlTransaction if the calling task outlived a block that rolled back.

        Only a block counts that ended after this client was made.
        """
        self.exclusive.refuse_left(self._ended_before)

    @asynccontextmanager
    async def locked(self, origin: CallOrigin | None = None) -> AsyncIterator[None]:
        """Hold the lock for the statements of one call; refuse it if its block ended meanwhile.

        `origin`: where the call was made, if something was awaited since.
        """
        made = origin or self.origin()
        async with self.exclusive:
            self.refuse_after_block(made)
            self.refuse_in_pipeline()
            yield

    def in_pipeline(self) -> bool:
        """Whether a pipeline is open: of the application, for ours end with the call."""
        return self.connection.pgconn.pipeline_status != PipelineStatus.OFF

    def refuse_in_pipeline(self) -> None:
        """Raise InvalidArgument in a pipeline of the application, whose results come later."""
        if self.in_pipeline():
            raise InvalidArgument(IN_PIPELINE)

    def cursor(self) -> AsyncCursor[Row]:
        """Open a cursor that returns tuples."""
        return AsyncCursor(self.connection, row_factory=tuple_row)

    async def close_cursor(self, name: str) -> None:
        """Close a server-side cursor."""
        async with self.cursor() as cursor:
            await cursor.execute(calls.read.close(name), prepare=False)

    async def abandon_cursor(self, name: str, *, held: bool) -> None:
        """Close a server-side cursor that may be gone, in whatever state the connection is.

        Closing what a rollback took away would fail the application's transaction. A held cursor
        outlives it: what cannot be closed now is closed before the next call.

        Readers may be closed by the garbage collector, in the middle of another call. To wait for
        that call's lock would then be a deadlock.
        """
        if held:
            self._left_open.add(name)
        if self.connection.lock.locked() or self.in_pipeline():
            return
        status = self.status()
        if status == TransactionStatus.INTRANS or (held and status != TransactionStatus.INERROR):
            with suppress(psycopg.Error, PgqError):  # PgqError: after a handler's call has ended
                async with self.cursor() as cursor:
                    await cursor.execute(calls.read.close_if_open(name), prepare=False)
                self._left_open.discard(name)

    async def close_left_open(self) -> None:
        """Close the cursors that could not be closed when their readers stopped."""
        if self._left_open and self.alone():
            for name in tuple(self._left_open):
                await self.abandon_cursor(name, held=True)


T = TypeVar("T")
R = TypeVar("R")


class AsyncCallRunner(AsyncCursors):
    """Runs calls over a connection that may be the application's: it changes no setting.

    Results are binary, so they do not depend on its DateStyle and IntervalStyle; the times of
    events are in UTC.
    """

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        """Take the connection as it is."""
        super().__init__(connection)
        self._is_extension: bool | None = None

    async def run(self, call: Call[T]) -> T:
        """Send one call and return its result."""
        result: T = (await self.run_all(call))[0]
        return result

    async def run_all(self, *wanted: Call[Any]) -> list[Any]:
        """Send calls in one round trip and return their results.

        In autocommit the calls are one transaction.
        """
        origin = self.origin()
        needs_lock = len(wanted) > 1 or self._left_open
        async with self.exclusive if needs_lock else self.exclusive.turn:
            return await self._run_all(origin, *wanted)

    async def _run_all(self, origin: CallOrigin, *wanted: Call[Any]) -> list[Any]:
        self.refuse_in_pipeline()
        check_encoding(self.connection)
        await self.close_left_open()
        cursors = [self._cursor_for(call) for call in wanted]
        try:
            await self._send(origin, wanted, cursors)
            rows = [await rows_of(cursor, tuple) for cursor in cursors]
        except psycopg.Error as exc:
            failed = failed_call(wanted, cursors)
            data: dict[str, object] = {}
            for call in (*wanted, failed):
                data |= call.error_data
            found = from_database(exc, failed.function, data)
            if found is None:
                raise
            raise found from exc
        return [call.decode(each) for call, each in zip(wanted, rows, strict=True)]

    def _cursor_for(self, call: Call[Any]) -> AsyncCursor[Row]:
        cursor = self.cursor()
        if any(isinstance(each, list) for each in call.params):
            cursor.adapters.register_dumper(list, NullSafeListDumper)
        return cursor

    async def _send(
        self,
        origin: CallOrigin,
        wanted: Sequence[Call[Any]],
        cursors: Sequence[AsyncCursor[Row]],
    ) -> None:
        if len(wanted) == 1:
            for call, cursor in zip(wanted, cursors, strict=True):
                self.refuse_after_block(origin)
                await cursor.execute(call.sql, call.params, binary=True, prepare=call.prepare)
            return
        try:
            async with self.connection.pipeline():
                for call, cursor in zip(wanted, cursors, strict=True):
                    self.refuse_after_block(origin)
                    await cursor.execute(call.sql, call.params, binary=True, prepare=call.prepare)
        except BaseException as exc:
            # Cancelled while psycopg ended the pipeline: later statements would get into it.
            if self.in_pipeline() or not isinstance(exc, Exception):
                close(self.connection)
            elif isinstance(exc, psycopg.Error) and self.alone():
                await self.forget_prepared()  # a transaction of the application rolls back itself
            raise

    async def forget_prepared(self) -> None:
        """Let psycopg prepare its statements anew, after a pipeline that failed.

        The server skips what follows the failed statement, and psycopg takes it for prepared. The
        end of psycopg's own transaction() clears the list if it rolls back. A statement ROLLBACK TO
        SAVEPOINT does not always do so.
        """
        with suppress(psycopg.Error):
            async with inner_transaction(self.connection) as transaction:
                transaction.force_rollback = True

    async def require_pgqpy(self, function: str) -> None:
        """Raise SchemaMissing if schema pgq is the extension's, which lacks this function."""
        if await self.is_extension():
            msg = f"the extension pgq in this database lacks {function}: pgqpy's schema has it"
            raise errors.SchemaMissing(msg, function=function, what_to_do="")

    async def is_extension(self) -> bool:
        """Whether schema pgq is the extension's. Asked once."""
        if self._is_extension is None:
            installed, own = await self.run(calls.admin.engine())
            if not installed:
                raise errors.SchemaMissing
            self._is_extension = not own
        return self._is_extension

    async def begin(self) -> None:
        """Begin the application's transaction if it is to have one and has not begun it.

        A transaction() that follows is a savepoint then, and never commits. Outside of autocommit
        psycopg would commit it.
        """
        if not self.connection.autocommit and self.status() == TransactionStatus.IDLE:
            await self.connection.execute("")  # it takes no snapshot and no transaction id


async def rows_of(cursor: AsyncCursor[R], kind: Callable[..., R]) -> list[R]:
    if cursor.description is None:
        return []
    try:
        return await cursor.fetchall()
    except psycopg.DataError:
        return bounded(cursor, kind)
