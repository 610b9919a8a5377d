"""The database session of a running consumer: how it is opened, set up and waited on."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql
from psycopg.errors import InvalidParameterValue, UndefinedObject

from pgqpy.calls import Call, admin, filters
from pgqpy.client import AsyncClient, open_session_async
from pgqpy.client.listening import channel
from pgqpy.client.opening import ISOLATION, PINNED, reset_statements
from pgqpy.consumers._async.handler_connection import AsyncHandlerConnection
from pgqpy.consumers.connections import end_connection, is_collision
from pgqpy.consumers.retry import backoff
from pgqpy.consumers.session_watch import OwnCalls
from pgqpy.consumers.settings import filter_of
from pgqpy.consumers.waiting import take_notifications
from pgqpy.errors import QueueNotFound, SchemaMissing, SchemaRefused
from pgqpy.manifest import shipped_version
from pgqpy.texts import printable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pgqpy.consumers.settings import BaseConsumer
    from pgqpy.consumers.waiting import AsyncWakeup
    from pgqpy.records import Event

logger = logging.getLogger("pgqpy.consumers")

# Handlers may take as long as they like, whatever the role's timeouts say. The server's own
# keepalives let it notice that this process died, and free the running lock for the next process.
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

# A statement of a handler may wait as long as it likes too. The server looks at its client only if
# told so: else the session of a process that died would keep the running lock until the statement
# ends. It is less than lock.STANDBY_AFTER. Servers on some platforms cannot do it, and refuse it.
LOOK_AT_CLIENT = b"set client_connection_check_interval = '500ms'"

# Of one transaction. What it commits is visible at once, and lost only if the server crashes.
NO_DISK_WAIT = Call(
    "set_config", "select pg_catalog.set_config('synchronous_commit', 'off', true)", (), bool
)

COLLISION_BASE, COLLISION_MAX, COLLISIONS = 0.01, 1.0, 10  # seconds, and times
LOCK_TIMEOUT = "5s"  # a statement that waits hears no stop(), and nobody would learn why it waits

# No row: there is no such queue. Operators are qualified: behind a pooler nothing is pinned.
REGISTERED = """
    select exists (
            select from pgq.subscription s
              join pgq.consumer c on c.co_id operator(pg_catalog.=) s.sub_consumer
             where s.sub_queue operator(pg_catalog.=) q.queue_id
               and c.co_name operator(pg_catalog.=) %s::text)
      from pgq.queue q where q.queue_name operator(pg_catalog.=) %s::text"""


class AsyncSession:
    """A connection in autocommit, its client, and its notifications."""

    kind: type[AsyncHandlerConnection] = AsyncHandlerConnection

    def __init__(self, connection: AsyncHandlerConnection, dsn: str) -> None:
        self.connection = connection
        self.dsn = dsn
        self.client = AsyncClient(connection)
        self.runner = self.client.runner
        self.calls = OwnCalls()
        self.pooled = connection.prepare_threshold is None  # other clients use the session too
        self.extension = False  # the extension pgq, not ours
        self.role = "none"  # that SET ROLE chose for us
        self.lock_timeout = "0"  # of our own statements
        self.ready = False  # it polled and found no batch, or has read events: nothing blocks it
        self._notified = False
        connection.add_notify_handler(self._note)

    @classmethod
    async def open(
        cls, dsn: str, application: str, lock_timeout: str = "0", *, any_session: bool = False
    ) -> AsyncSession:
        """Connect and set up the session; ConnectionFailed if that fails.

        With `any_session` a pooler may share the session: then it keeps none of our settings.
        """
        settings = SETTINGS | {"lock_timeout": lock_timeout}
        defaults = {"fallback_application_name": application}
        connection = await open_session_async(
            dsn, settings, kind=cls.kind, defaults=defaults, any_session=any_session
        )
        session = cls(connection, dsn)
        session.lock_timeout = lock_timeout
        try:
            await session._look_at_client()
            await session._check_schema()
            session.calls.watch(application, connection.fileno())
        except BaseException:
            session.close()
            raise
        return session

    async def _look_at_client(self) -> None:
        if not self.pooled:
            with suppress(InvalidParameterValue, UndefinedObject):  # PostgreSQL 13 has no such name
                await self.connection.execute(LOOK_AT_CLIENT, prepare=False)

    async def _check_schema(self) -> None:
        self.extension = await self.runner.is_extension()
        if not self.extension:
            version = await self.runner.run(admin.schema_version())
            if version > shipped_version():
                raise SchemaRefused.too_new(version, shipped_version())

    async def restore_settings(self) -> None:
        """Restore the settings of the role and the database: handlers use the connection now.

        But for the isolation: their transactions are in READ COMMITTED, whatever the default is.
        """
        if not self.pooled:
            await self.connection.execute(reset_statements({*PINNED} - {ISOLATION}).encode())
        cursor = await self.connection.execute("select pg_catalog.current_setting('role')")
        (self.role,) = await cursor.fetchone() or (self.role,)

    def close(self) -> None:
        """Close the connection; closing twice is safe."""
        self.calls.close()
        end_connection(self.connection)

    @property
    def lost(self) -> bool:
        """Whether the connection is closed."""
        return self.connection.closed

    async def register(self, queue: str, consumer: str) -> None:
        """Register the consumer unless it is; QueueNotFound if there is no such queue.

        register_consumer waits for the lock of a registration that is there: a transactional
        consumer holds it during its batches, and this process would not learn that it runs. The
        extension pgq has one SQLSTATE for every error: so the queue is looked up first.
        """
        call = Call("register_consumer", REGISTERED, (consumer, queue), list)
        found = await self.runner.run(call)
        if not found:
            with suppress(SchemaMissing):  # by the extension; our schema knows a former name
                await self.runner.run(admin.get_rotation_info(queue))
            raise QueueNotFound(queue=queue)
        if not found[0][0]:
            await self.client.register_consumer(queue, consumer)

    async def set_filter(self, consumer: BaseConsumer) -> None:
        """Register which events the consumer takes, unless its class leaves that open.

        ConsumerRunning if another process is at work with another filter.
        """
        if consumer.filter is None:
            return
        wanted = filter_of(consumer)
        call = filters.set_consumer_filter(consumer.queue, consumer.name, *wanted)
        if await self.runner.run(call):
            words = filters.describe_filter(*wanted)
            text = "consumer %s of queue %s takes other events than before: %s"
            logger.info(text, consumer.name, consumer.queue, printable(words))

    async def next_list(self, lists: AsyncIterator[list[Event]]) -> list[Event]:
        """Read the next events of a batch; none at its end."""
        with self.calls.running(reads=True):
            async for events in lists:
                self.ready = True
                return events
        self.ready = True
        return []

    async def listen(self, queue: str) -> None:
        """Ask for a notification at every tick of the queue, unless a pooler shares the session."""
        if self.pooled:
            return
        name = sql.Identifier(channel(queue))
        await self.connection.execute(sql.SQL("listen {}").format(name))

    async def check_session(self) -> None:
        """Send an empty query if the session may have ended. Raises psycopg's error if it has."""
        if self.calls.may_have_ended:
            # before the query: the thread may set it again meanwhile
            self.calls.may_have_ended = False
            with self.calls.running():
                await self.connection.execute("")

    async def send(self, *wanted: Call[Any]) -> list[Any]:
        """Send calls in one round trip; return their results."""
        with self.calls.running():
            return await self.runner.run_all(*wanted)

    async def send_again(self, stop: AsyncWakeup, *wanted: Call[Any]) -> list[Any]:
        """Send calls as one transaction; repeat it if it collides with another one."""
        for collisions in range(COLLISIONS):
            try:
                return await self.send(*wanted)
            except psycopg.Error as error:
                if not is_collision(error):
                    raise
                delay = backoff(collisions, base=COLLISION_BASE, maximum=COLLISION_MAX)
                await stop.wait(delay)
        return await self.send(*wanted)

    async def wait(self, seconds: float, stop: AsyncWakeup, *others: int) -> bool:
        """Wait for a notification, for `stop` or another file, or at most some seconds.

        Return whether a notification came.
        """
        if self._take_notifications():
            return True
        await stop.wait(seconds, self.connection.fileno(), *others)
        return self._take_notifications()

    def _note(self, _notification: object) -> None:
        self._notified = True

    def _take_notifications(self) -> bool:
        notified = take_notifications(self.connection.pgconn) or self._notified
        self._notified = False
        return notified
