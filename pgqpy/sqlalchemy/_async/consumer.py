"""A transactional consumer whose handlers get a session of SQLAlchemy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgqpy.consumers.for_tools import AsyncLentConnection, AsyncRunnableConsumer
from pgqpy.sqlalchemy.engines import AsyncEngine, AsyncSession, lent, new_engine_async

if TYPE_CHECKING:
    from collections.abc import Callable


class AsyncJoinedConnection(AsyncLentConnection):
    """The connection of a handler call, as an engine takes it.

    SQLAlchemy sends COMMIT or ROLLBACK when it first connects, and at the end of a connection. They
    do nothing: the consumer ends its transaction. In the handler they are the application's, and
    refused.
    """

    __slots__ = ("in_handler",)
    in_handler: bool

    async def commit(self) -> None:
        """Raise WrongTransaction in the handler."""
        if self.in_handler:
            await super().commit()

    async def rollback(self) -> None:
        """Raise WrongTransaction in the handler."""
        if self.in_handler:
            await super().rollback()

    async def close(self) -> None:
        """Do nothing: the consumer goes on with it."""

    def add_notice_handler(self, callback: object) -> None:
        """Do nothing: an engine adds one for each call, and they would add up."""


class AsyncSQLAlchemyConsumer(AsyncRunnableConsumer):
    """Processes events in the transaction that finishes them, with a session of SQLAlchemy.

    As AsyncTransactionalConsumer, but the handler gets a session: `process_event(self, event,
    session)` or `process_batch(self, batch, session)`. It is flushed and closed after the handler.
    `session.commit()` and `session.rollback()` end a savepoint only.

    `sessions` makes it: a class, or a sessionmaker with options of your own.

        class Revenue(AsyncSQLAlchemyConsumer):
            queue = "orders"
            name = "revenue"

            async def process_event(self, event, session):
                session.add(Spent(total=event.json()["total"]))
    """

    is_transactional = True
    lends = "session"
    sessions: Callable[..., AsyncSession] = AsyncSession
    _pgq_engine: AsyncEngine | None = None

    async def around_handler(
        self, handler: Callable[..., Any], given: Any, connection: AsyncLentConnection
    ) -> Any:
        """Call the handler with a session, and flush it: its errors are the handler's."""
        joined = AsyncJoinedConnection.of(connection)
        joined.in_handler = False
        engine = self._pgq_engine = self._pgq_engine or new_engine_async()
        token = lent.set(joined)
        try:
            async with engine.connect() as connected, connected.begin():
                sessions = self.sessions
                async with sessions(
                    bind=connected, join_transaction_mode="create_savepoint"
                ) as session:
                    joined.in_handler = True
                    try:
                        result = await handler(given, session)
                        await session.commit()  # releases its savepoint
                    finally:
                        joined.in_handler = False
            return result
        finally:
            lent.reset(token)
            joined.call_ended = True
