"""What every part of the client stands on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pgqpy import calls
from pgqpy.client._async.link import AsyncLink

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from psycopg import AsyncConnection, AsyncTransaction

    from pgqpy.calls import Call
    from pgqpy.calls.encoding import Default

T = TypeVar("T")


class AsyncBase:
    """A connection, and what may be stored over it."""

    def __init__(
        self,
        connection: AsyncConnection[Any],
        *,
        payload_limit: int = calls.PAYLOAD_LIMIT,
        json_default: Default | None = None,
    ) -> None:
        """Ride on a connection that the application has.

        Args:
            connection: psycopg's; with SQLAlchemy,
                `session.connection().connection.driver_connection`.
            payload_limit: octets of each field of an event at most.
            json_default: converts what has no form in JSON otherwise, as json.dumps' `default`.
        """
        self._link = AsyncLink(connection)
        self._payload_limit = payload_limit
        self._json_default = json_default
        self._owned = False

    @property
    def connection(self) -> AsyncConnection[Any]:
        """The psycopg connection underneath."""
        return self._link.connection

    def transaction(self) -> AbstractAsyncContextManager[AsyncTransaction]:
        """Open a transaction, or a savepoint inside one: psycopg's `connection.transaction()`."""
        return self.connection.transaction()

    async def close(self) -> None:
        """Close the connection if `connect_async` opened it; leave the application's alone."""
        if self._owned:
            await self.connection.close()

    async def _run(self, call: Call[T]) -> T:
        return await self._link.run(call)
