"""The base class of every part of the client."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from psycopg.errors import InFailedSqlTransaction
from psycopg.pq import TransactionStatus

from pgqpy import calls
from pgqpy.client._async.finisher import AsyncFinisher
from pgqpy.client._async.runner import AsyncCallRunner

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from psycopg import AsyncConnection, AsyncTransaction

    from pgqpy.calls.json_values import Default

FAILED = (
    "an error in this transaction was caught, so all of it is rolled back: "
    "put what may fail into a transaction() of its own inside"
)


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
                `session.connection().connection.driver_connection`.
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

        Raises InFailedSqlTransaction at its end if an error inside was caught: PostgreSQL rolls
        back then, and psycopg's own transaction() says nothing. What may fail needs a savepoint.
        """
        async with self.connection.transaction() as transaction:
            yield transaction
            failed = self.runner.status() == TransactionStatus.INERROR
            if failed and not transaction.force_rollback:
                raise InFailedSqlTransaction(FAILED)

    async def close(self) -> None:
        """Close the connection if `connect_async` opened it; leave the application's open."""
        if self._owned:
            await self.connection.close()
