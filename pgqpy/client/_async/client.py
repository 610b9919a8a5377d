"""The asyncio client, and the functions that connect it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import AsyncConnection

from pgqpy import calls
from pgqpy.client._async.consume import AsyncConsuming
from pgqpy.client._async.manage import AsyncManaging
from pgqpy.client._async.messages import AsyncReceiving
from pgqpy.client._async.open import open_for_application, open_session_async
from pgqpy.client._async.produce import AsyncProducing
from pgqpy.client.opening import PINNED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self

    from pgqpy.calls.payload import Default


class AsyncClient(AsyncProducing, AsyncConsuming, AsyncReceiving, AsyncManaging):
    """Calls the SQL functions of the queue.

    A method has the name of its function; the docstring names it otherwise. What no application
    needs is no method: `call` sends it.

    `AsyncClient(connection)` uses a psycopg connection of the application: its calls commit, or
    roll back, with the application's own work. It never commits, and changes no setting.
    `connect_async(dsn)` opens a connection of its own, in autocommit.

    It works with a schema newer than this pgqpy: functions keep their parameters and results, so
    applications may be upgraded after the schema. The ticker, consumers and the installer need
    more than these functions and refuse it with SchemaRefused. Calling a function that an older
    schema lacks raises SchemaMissing.

    Errors of the queue are `pgqpy.errors.PgqError`, those of PostgreSQL remain psycopg's. On the
    extension pgq a method whose function it lacks raises SchemaMissing.
    """

    async def __aenter__(self) -> Self:
        """Return the client; `close()` follows at the end."""
        return self

    async def __aexit__(self, *_error: object) -> None:
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
        payload_limit: as in AsyncClient.
        json_default: as in AsyncClient.
        parameters: more for psycopg's connect, such as `application_name` or `prepare_threshold`.

    Raises ConnectionFailed, which says what to do, without a server, database, user or password.

        client = await connect_async("postgresql://localhost/shop")
    """
    connection = await open_for_application(dsn, parameters)
    return _owning_client(connection, payload_limit, json_default)


async def connect_as_tool_async(
    dsn: str = "",
    settings: Mapping[str, str] = PINNED,
    *,
    any_owner: bool = False,
    any_session: bool = False,
    **defaults: Any,
) -> AsyncClient:
    """Connect for a tool of pgqpy, whose SQL finds no functions of other schemas.

    `defaults` are for libpq, where the DSN has none: `fallback_application_name`. The rest, and
    the errors, are those of `open_session_async`.
    """
    connection = await open_session_async(
        dsn,
        settings,
        kind=AsyncConnection,
        defaults=defaults,
        any_owner=any_owner,
        any_session=any_session,
    )
    return _owning_client(connection, calls.PAYLOAD_LIMIT)


def _owning_client(
    connection: AsyncConnection[Any], payload_limit: int, json_default: Default | None = None
) -> AsyncClient:
    client = AsyncClient(connection, payload_limit=payload_limit, json_default=json_default)
    client._owned = True  # noqa: SLF001  # only here is the connection ours to close
    return client
