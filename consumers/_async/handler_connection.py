"""The connection of a consumer, which transactional handlers get, and checks of what they left."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus

from pgqpy.consumers.connections import end_connection, is_collision, transaction_ended
from pgqpy.consumers.handlers import HANDLER_ERRORS
from pgqpy.errors import PgqError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from psycopg.abc import PQGen
    from typing_extensions import Self


logger = logging.getLogger("pgqpy.consumers")

LEFT_OPEN = "the handler left a statement, pipeline, COPY, stream or transaction() open"
CALL_ENDED = (
    "a task or thread uses the connection of a handler call that has ended: a handler uses the "
    "connection of its own call, and waits for its tasks and threads"
)


class AsyncHandlerConnection(psycopg.AsyncConnection[Any]):
    """The connection that transactional handlers get. Its transaction belongs to the consumer."""

    _collision: BaseException | None = None

    def collided(self, error: BaseException) -> bool:
        """Say whether this connection's transaction collided with another one; ask before it ends.

        The same error on another connection of the handler leaves this transaction whole: it is a
        failure like any other. An event that always gets it would otherwise be repeated for ever.
        """
        error = getattr(error, "orig", error)  # SQLAlchemy wraps what psycopg raised
        return is_collision(error) and (self._failed() or error is self._collision)

    def note(self, error: BaseException | None) -> None:
        """Remember a collision: a rollback to a savepoint of another library hides it."""
        if error is not None and is_collision(error):
            self._collision = error

    def _failed(self) -> bool:
        return self.pgconn.transaction_status == TransactionStatus.INERROR

    @asynccontextmanager
    async def transaction(
        self,
        savepoint_name: str | None = None,
        force_rollback: bool = False,  # noqa: FBT001, FBT002  # psycopg's signature
    ) -> AsyncIterator[psycopg.AsyncTransaction]:
        """Open a savepoint, as psycopg does, and remember a collision that it rolls back."""
        async with super().transaction(savepoint_name, force_rollback) as inner:
            try:
                yield inner
            except psycopg.Error as error:
                if self._failed() and is_collision(error):
                    self._collision = error
                raise
            finally:
                inner.pgconn = self.pgconn  # no ROLLBACK after the end of the connection

    @property
    def occupied(self) -> bool:
        """Whether a statement, COPY, pipeline or transaction() block was begun and not ended."""
        # psycopg counts its blocks, of which one is the consumer's. It has no public name for that.
        if self.pgconn.transaction_status == TransactionStatus.ACTIVE or self._num_transactions > 1:
            return True
        return self.lock.locked() or self.pgconn.pipeline_status != PipelineStatus.OFF

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[AsyncLentConnection]:
        """Yield this connection for one call of a handler: nothing is sent over it afterwards.

        A task or thread that outlives the call would write in the transaction of another event,
        although its own event failed and comes again.
        """
        lent = AsyncLentConnection.of(self)
        try:
            yield lent
        except HANDLER_ERRORS:
            if not self.closed and self.occupied:
                end_connection(self)
            raise
        finally:
            lent.call_ended = True

    async def commit(self) -> None:
        """Raise WrongTransaction: the consumer commits, together with finish_batch."""
        raise transaction_ended()

    async def rollback(self) -> None:
        """Raise WrongTransaction: to undo an event, raise an exception."""
        raise transaction_ended()

    async def close(self) -> None:
        """Raise PgqError: the batch would be delivered, and the connection closed, for ever."""
        raise PgqError("the connection is the consumer's: do not close it in a handler")


class AsyncLentConnection(AsyncHandlerConnection):
    """The connection object of one handler call: it shares the session, refuses after the call."""

    __slots__ = ("call_ended",)  # all else is shared
    call_ended: bool

    @classmethod
    def of(cls, connection: AsyncHandlerConnection) -> Self:
        """Return the connection for a call that begins."""
        lent = object.__new__(cls)
        lent.__dict__ = connection.__dict__
        lent.call_ended = False
        return lent

    async def wait(self, gen: PQGen[Any], *args: Any, **kwargs: Any) -> Any:
        """Wait for a statement, as psycopg does. Raises PgqError if the call has ended."""
        if self.call_ended:
            logger.warning(CALL_ENDED)
            raise PgqError(CALL_ENDED)
        return await super().wait(gen, *args, **kwargs)

    def __del__(self, *_: Any) -> None:
        """Nothing: the session goes on."""


def check_open(connection: AsyncHandlerConnection) -> None:
    """Raise WrongTransaction if no transaction is open, OperationalError if no connection is.

    A connection that the handler left busy is closed: nothing else surely ends a COPY or pipeline,
    and the next statement would wait for ever or get the result of another one.
    """
    if connection.closed:
        raise psycopg.OperationalError("the connection is closed")
    if connection.occupied:
        end_connection(connection)
        raise psycopg.OperationalError(LEFT_OPEN)
    if ended(connection):
        raise transaction_ended()


def ended(connection: AsyncHandlerConnection) -> bool:
    """Say whether the connection works, and no transaction is open."""
    return connection.pgconn.transaction_status == TransactionStatus.IDLE
