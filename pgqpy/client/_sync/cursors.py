"""[Generated from _async/cursors.py by tools/unasync.py: edit that file, not this one.] The cursors of a connection that may be the application's."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg import Connection, Cursor
from psycopg.errors import InFailedSqlTransaction
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import tuple_row

from pgqpy import calls
from pgqpy.client.exclusive import ENDED, Block, exclusive
from pgqpy.errors import InvalidArgument, PgqError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgqpy.calls import Row

IN_PIPELINE = (
    "a pipeline is open on this connection: call pgqpy before or after it, or over another one"
)


class CallOrigin(NamedTuple):
    """Where a call was made: how deep in blocks, and the innermost of client.transaction()."""

    depth: int
    block: Block | None = None


class Cursors:
    """Opens cursors of our own kind, whatever factories the application set, and closes them."""

    def __init__(self, connection: Connection[Any]) -> None:
        """Take the connection as it is."""
        if not isinstance(connection, Connection):
            kind = type(connection).__name__
            how = "with SQLAlchemy it is session.connection().connection.driver_connection"
            if isinstance(connection, str):
                how = "pgqpy.connect(dsn) opens one"
            raise TypeError(f"a psycopg Connection is needed, not {kind}: {how}")
        self.connection = connection
        self.exclusive = exclusive(connection)
        self._ended_before = self.exclusive.ended  # blocks, when this client was made
        self._left_open: set[str] = set()

    def status(self) -> TransactionStatus:
        """Return the state of the connection's transaction."""
        return self.connection.info.transaction_status

    def alone(self) -> bool:
        """Whether a statement now would be a transaction of its own."""
        return self.connection.autocommit and self.status() == TransactionStatus.IDLE

    def is_alone(self) -> bool:
        """Say the same once no statement runs. A reader that is left closes its cursor at any time."""
        with self.connection.lock:
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

    @contextmanager
    def locked(self, origin: CallOrigin | None = None) -> Iterator[None]:
        """Hold the lock for the statements of one call; refuse it if its block ended meanwhile.

        `origin`: where the call was made, if something was awaited since.
        """
        made = origin or self.origin()
        with self.exclusive:
            self.refuse_after_block(made)
            self.refuse_in_pipeline()
            yield

    def in_transaction(self) -> bool:
        """Whether a call made now is part of a transaction of the application.

        Unlike `alone()`, it takes no notice of a statement that runs, or a block of pgqpy's own.
        """
        if not self.connection.autocommit or self.origin().depth > 0:
            return True
        in_block = {TransactionStatus.INTRANS, TransactionStatus.INERROR}
        return not self.exclusive.inner and self.status() in in_block

    def in_pipeline(self) -> bool:
        """Whether a pipeline is open: of the application, for ours end with the call."""
        return self.connection.pgconn.pipeline_status != PipelineStatus.OFF

    def refuse_in_pipeline(self) -> None:
        """Raise InvalidArgument in a pipeline of the application, whose results come later."""
        if self.in_pipeline():
            raise InvalidArgument(IN_PIPELINE)

    def cursor(self) -> Cursor[Row]:
        """Open a cursor that returns tuples."""
        return Cursor(self.connection, row_factory=tuple_row)

    def close_cursor(self, name: str) -> None:
        """Close a server-side cursor."""
        with self.cursor() as cursor:
            cursor.execute(calls.read.close(name), prepare=False)

    def abandon_cursor(self, name: str, *, held: bool) -> None:
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
                with self.cursor() as cursor:
                    cursor.execute(calls.read.close_if_open(name), prepare=False)
                self._left_open.discard(name)

    def close_left_open(self) -> None:
        """Close the cursors that could not be closed when their readers stopped."""
        if self._left_open and self.alone():
            for name in tuple(self._left_open):
                self.abandon_cursor(name, held=True)
