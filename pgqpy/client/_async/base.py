"""The base class of every part of the client."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from psycopg import AsyncConnection, OperationalError
from psycopg.errors import InFailedSqlTransaction
from psycopg.pq import TransactionStatus

from pgqpy import calls
from pgqpy.client._async.finisher import AsyncFinisher
from pgqpy.client._async.runner import AsyncCallRunner
from pgqpy.client._async.transactions import closing_transaction

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from psycopg import AsyncTransaction

    from pgqpy.calls.json_values import Default

FAILED = (
    "PostgreSQL refused a statement in this transaction, and the error was caught: all of it is "
    "rolled back. Put what may fail into a transaction() of its own inside"
)
LOST = "the connection was lost or closed in this transaction: nothing of it is committed"


class AsyncBase:
    """A connection, and the limits of what is stored over it."""

    def __init__(
        self,
        connection: AsyncConnection[Any],
        *,
        payload_limit: int = calls.PAYLOAD_LIMIT,
        json_default: Default | None = None,
    ) -> None:
        """Use a connection that the application has.

        Args:
            connection: psycopg's; with SQLAlchemy,
                `session.connection().connection.driver_connection`, anew for each call: a session
                may commit over one connection, and go on with another.
            payload_limit: octets of each field of an event at most.
            json_default: converts what has no form in JSON otherwise, as json.dumps' `default`.
        """
        self.runner = AsyncCallRunner(connection)  # for pgqpy itself, not for applications
        self._payload_limit = payload_limit
        self._json_default = json_default
        self._owned = False
        self._registered: set[tuple[str, str]] = set()  # queue and consumer, by receive
        self._finisher = AsyncFinisher(self.runner)

    @property
    def connection(self) -> AsyncConnection[Any]:
        """The psycopg connection underneath."""
        return self.runner.connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncTransaction]:
        """Open a transaction, or a savepoint inside one: psycopg's `connection.transaction()`.

        A connection that is not in autocommit always has a savepoint: the application commits.

        Raises InFailedSqlTransaction at its end if an error of the server was caught inside, and
        OperationalError if the connection was lost: nothing is committed then, and psycopg's own
        transaction() says nothing. What may fail needs a transaction() of its own inside. Threads
        or tasks that share a client cannot have one each: the connection is closed if they cross.
        A call in the block that is not sent before its end raises InFailedSqlTransaction; so does
        each call of a task that the block has left behind when it was rolled back.
        The connection is also closed if the task is cancelled while it waits to send COMMIT or
        ROLLBACK.
        """
        lock, made_in = self.runner.exclusive, self.runner.place()
        async with AsyncExitStack() as at_end, AsyncExitStack() as begun:
            async with lock:
                self.runner.refuse_elsewhere(made_in)
                await self.runner.begin()
                transaction = await begun.enter_async_context(closing_transaction(self.connection))
            with lock.block() as block:
                try:
                    yield transaction
                finally:  # behind the calls that wait for it
                    await at_end.enter_async_context(lock)
                if transaction.force_rollback:
                    block.rolled_back()
            if not transaction.force_rollback:
                async with self.runner.settled():
                    self._check_transaction()

    def _check_transaction(self) -> None:
        status = self.runner.status()
        if status == TransactionStatus.INERROR:
            raise InFailedSqlTransaction(FAILED)
        if status == TransactionStatus.UNKNOWN:
            raise OperationalError(LOST)

    async def close(self) -> None:
        """Close the connection if `connect_async` opened it; leave the application's open."""
        if self._owned:
            await self.connection.close()
