"""One connection of a running consumer: opened, set up, and talked over in few round trips."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql
from psycopg.errors import UntranslatableCharacter
from psycopg.rows import tuple_row

from pgqpy.calls import Call, read
from pgqpy.client import AsyncClient, _encoding
from pgqpy.client._async.open import open_session
from pgqpy.client._session import PINNED, resetting
from pgqpy.consumers._async.savepoint import AsyncHandlerConnection
from pgqpy.consumers.waiting import take_notifications
from pgqpy.errors import QueueNotFound, SchemaTooNew, UnreadableEvent
from pgqpy.manifest import shipped_version
from pgqpy.sqlstates import from_database

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from pgqpy.consumers.waiting import AsyncWakeup
    from pgqpy.records import Batch, Event

# Handlers may take as long as they like, whatever the role's timeouts say. The server's own
# keepalives let it notice our death, and free the running lock for the next process.
SETTINGS = {
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_session_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "transaction_timeout": "0",
    "tcp_keepalives_idle": "30",  # seconds
    "tcp_keepalives_interval": "10",  # seconds
    "tcp_keepalives_count": "3",
    **PINNED,
}


class AsyncSession:
    """A connection (autocommit) with the consumer's calls and notifications."""

    def __init__(self, connection: AsyncHandlerConnection) -> None:
        self.connection = connection
        self.client = AsyncClient(connection)
        self.extension = False  # the real extension pgq, not ours
        self.role = "none"  # that SET ROLE chose for us
        self._notified = False
        connection.add_notify_handler(self._note)

    @classmethod
    async def open(cls, dsn: str, application: str) -> AsyncSession:
        """Connect and set up the session; ConnectionFailed if there is no way."""
        connection = await open_session(
            dsn,
            SETTINGS,
            kind=AsyncHandlerConnection,
            defaults={"fallback_application_name": application},
        )
        session = cls(connection)
        try:
            await session._check_schema()
        except BaseException:
            await session.close()
            raise
        return session

    async def _check_schema(self) -> None:
        version = await self.client.schema_version()
        self.extension = version is None
        if version is not None and version > shipped_version():
            raise SchemaTooNew(installed=version, shipped=shipped_version())

    async def hand_over(self) -> None:
        """Give the role's and the database's settings back: handlers use the connection now."""
        await self.connection.execute(resetting(PINNED).encode())
        cursor = await self.connection.execute("select pg_catalog.current_setting('role')")
        (self.role,) = await cursor.fetchone() or (self.role,)

    async def close(self) -> None:
        """Close the connection; closing twice is safe."""
        await self.connection.end()

    @property
    def lost(self) -> bool:
        """Whether the connection is of no use any more."""
        return self.connection.closed

    def collided(self, error: BaseException) -> bool:
        """Say whether the transaction at hand collided with another one; ask before it ends.

        The same error out of a connection of the handler's own leaves ours whole, and is a failure
        like any other: repeated as if it were ours, an event that always gets it would never end.
        """
        return self.connection.collided(error)

    async def register(self, queue: str, consumer: str) -> None:
        """Register the consumer unless it is; QueueNotFound if there is no such queue.

        The real extension has one SQLSTATE for every error: so the queue is looked up first.
        """
        (known,) = await self.run(_known(queue))
        if not known:
            words = f"{QueueNotFound.words.format(queue=queue)}: {QueueNotFound.what_to_do}"
            raise QueueNotFound(words, queue=queue)
        await self.client.register_consumer(queue, consumer)

    async def listen(self, queue: str) -> None:
        """Ask for a notification at every tick of the queue."""
        await self.connection.execute(sql.SQL("listen {}").format(sql.Identifier(f"pgq_{queue}")))

    async def wait(self, seconds: float, stop: AsyncWakeup) -> None:
        """Wait for a notification, for `stop`, or at most some seconds."""
        if not self._take_notifications():
            await stop.wait(seconds, self.connection.fileno())
            self._take_notifications()

    def events(self, batch: Batch, fetch_size: int) -> AsyncGenerator[list[Event], None]:
        """Read the events of a batch, a list at a time; close it when you stop early."""
        return self.client.fetch_batch_events(batch, fetch_size)

    async def unreadable(self, batch: Batch) -> UnreadableEvent:
        """Find the event of a batch that is not text."""
        events = read.of_batch(batch.id)
        return await self.client._link.unreadable(events)  # noqa: SLF001  # not for applications

    def storable(self, text: str) -> str:
        """Return a text of ours so that a database in any encoding can hold it."""
        if _encoding.holds_everything(self.connection):
            return text
        return text.encode("ascii", "backslashreplace").decode()

    async def run(self, *wanted: Call[Any]) -> list[Any]:
        """Run the calls in one round trip; outside a transaction they are one of their own."""
        # Not connection.cursor(): handlers may set its cursor_factory.
        cursors = [psycopg.AsyncCursor(self.connection, row_factory=tuple_row) for _ in wanted]
        try:
            await self._send(wanted, cursors)
        except psycopg.Error as error:
            about = {key: value for call in wanted for key, value in call.about.items()}
            ours = from_database(error, wanted[0].function, about)
            if isinstance(error, UntranslatableCharacter):
                ours = _encoding.unstorable(wanted[0], error, self.connection)
            if ours is None:
                raise
            raise ours from error
        pairs = zip(wanted, cursors, strict=True)
        return [call.decode(await _rows(cursor)) for call, cursor in pairs]

    async def _send(self, wanted: Sequence[Call[Any]], cursors: Sequence[Any]) -> None:
        # A commit at the end of a pipeline fails without a SQLSTATE. In READ COMMITTED it does not
        # fail; where handlers chose SERIALIZABLE, several calls are inside their transaction.
        if len(wanted) == 1:
            await cursors[0].execute(wanted[0].sql, wanted[0].params, binary=True)
            return
        async with self.connection.pipeline():
            for call, cursor in zip(wanted, cursors, strict=True):
                await cursor.execute(call.sql, call.params, binary=True)

    def _note(self, _notification: object) -> None:
        self._notified = True

    def _take_notifications(self) -> bool:
        notified = take_notifications(self.connection.pgconn) or self._notified
        self._notified = False
        return notified


async def _rows(cursor: psycopg.AsyncCursor[Any]) -> list[Any]:
    return await cursor.fetchall() if cursor.description else []


def _known(queue: str) -> Call[bool]:
    query = "select 1 from pgq.queue where queue_name = %s::text"
    return Call("register_consumer", query, (queue,), bool, {"queue": queue})
