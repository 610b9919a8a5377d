"""The asyncio client, and the functions that connect it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import AsyncConnection

from pgqpy import calls
from pgqpy.client._async.admin import AsyncManaging
from pgqpy.client._async.consume import AsyncConsuming
from pgqpy.client._async.dead_events import AsyncDeadEvents
from pgqpy.client._async.maintain import AsyncMaintaining
from pgqpy.client._async.open import open_for_application, open_session
from pgqpy.client._async.produce import AsyncProducing
from pgqpy.client._async.ticks import AsyncTickReading
from pgqpy.client._session import PINNED

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from pgqpy.calls.encoding import Default


class AsyncClient(
    AsyncProducing,
    AsyncConsuming,
    AsyncTickReading,
    AsyncDeadEvents,
    AsyncManaging,
    AsyncMaintaining,
):
    """Calls the SQL functions of the queue: a method has the name of its function.

    `AsyncClient(connection)` rides on a psycopg connection that the application has: what it does
    commits, or rolls back, with the application's own work. It never commits, and changes no
    setting. `connect_async(dsn)` brings a connection of its own, in autocommit.

    A schema newer than this pgqpy is no obstacle: functions keep their parameters and results, so
    applications may be upgraded after the schema. Only what stands on more than these functions
    (ticker, consumers, installation) refuses it with SchemaTooNew. An older schema lacks what came
    later: calling that raises SchemaMissing.

    Errors of the queue are `pgqpy.errors.PgqError`, those of PostgreSQL remain psycopg's.
    """

    async def __aenter__(self) -> Self:
        """Return the client; `close()` follows at the end."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connection if `connect_async` opened it; leave the application's alone."""
        await self.close()


async def connect_async(
    dsn: str = "",
    *,
    payload_limit: int = calls.PAYLOAD_LIMIT,
    json_default: Default | None = None,
    **parameters: Any,
) -> AsyncClient:
    """Connect to a database and return a client in autocommit; `client.transaction()` opens more.

    Its encoding is UTF-8 and its isolation READ COMMITTED, also where the database's default is
    another one, unless `options` ask for it. Everything else is as the role and database say.

    Args:
        dsn: a URL or libpq's `key=value` text; what it leaves out comes from the PG* variables.
        payload_limit: octets of each field of an event at most.
        json_default: converts what has no form in JSON otherwise, as json.dumps' `default`.
        parameters: more for psycopg's connect, such as `application_name` or `prepare_threshold`.

    Raises:
        ConnectionFailed: no such server, database, user or password; says what to do.

        client = await connect_async("postgresql://localhost/shop")
    """
    connection = await open_for_application(dsn, parameters)
    return _owning_client(connection, payload_limit, json_default)


async def connect_pinned_async(
    dsn: str = "", *, any_owner: bool = False, **defaults: Any
) -> AsyncClient:
    """Connect for SQL of ours only (a tool's): no other schema's functions can get in its way.

    Args:
        dsn: as in connect.
        any_owner: of the schema pgq; the caller looks at it before it calls anything there.
        defaults: for libpq, where the DSN does not say it itself: `fallback_application_name`.

    Raises:
        ConnectionFailed: as connect does.
        SchemaNotTrusted: a forged schema pgq, say; nothing in it was called.
    """
    connection = await open_session(
        dsn, PINNED, kind=AsyncConnection, defaults=defaults, any_owner=any_owner
    )
    return _owning_client(connection, calls.PAYLOAD_LIMIT)


def _owning_client(
    connection: AsyncConnection[Any], payload_limit: int, json_default: Default | None = None
) -> AsyncClient:
    client = AsyncClient(connection, payload_limit=payload_limit, json_default=json_default)
    client._owned = True  # noqa: SLF001  # only here is the connection ours to close
    return client
