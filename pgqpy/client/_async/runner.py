"""The runner of calls over a connection, and of reads of events."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import AsyncCursor
from psycopg.errors import CharacterNotInRepertoire, ProgramLimitExceeded
from psycopg.pq import TransactionStatus

from pgqpy import calls, errors
from pgqpy.client._async.cursors import AsyncCursors, CallOrigin
from pgqpy.client._async.transactions import close, inner_transaction
from pgqpy.client._rows import bounded, failed_call
from pgqpy.client.dsn import check_encoding
from pgqpy.client.list_dumper import NullSafeListDumper
from pgqpy.sqlstates import from_database

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from psycopg import AsyncConnection

    from pgqpy.calls import Call, Row

T = TypeVar("T")
R = TypeVar("R")

UNREADABLE = (CharacterNotInRepertoire, ProgramLimitExceeded)


class AsyncCallRunner(AsyncCursors):
    """Runs calls over a connection that may be the application's: it changes no setting.

    Results are binary, so they do not depend on its DateStyle and IntervalStyle; the times of
    events are in UTC.
    """

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        """Take the connection as it is."""
        super().__init__(connection)
        self.holds_cursors = True  # WITH HOLD; not behind a pooler that shares sessions
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
        for call in wanted:
            if call.pgqpy_only:
                await self.require_pgqpy(call.function)
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
            raise errors.SchemaMissing(msg, function=function)

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
