"""The opening of connections: no other module connects to a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncCursor, sql

from pgqpy.client.dsn import connect_parameters, connection_failed
from pgqpy.client.schema_owner import UNTRUSTED_OWNER, not_trusted
from pgqpy.client.session_settings import ISOLATION, READ_COMMITTED, set_statements

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

AnyAsyncConnection = TypeVar("AnyAsyncConnection", bound=AsyncConnection[Any])


async def open_session_async(
    dsn: str,
    settings: Mapping[str, str],
    *,
    kind: type[AnyAsyncConnection],
    defaults: Mapping[str, Any] | None = None,
    any_owner: bool = False,
) -> AnyAsyncConnection:
    """Connect for pgqpy's own SQL, in autocommit; set and check the session in one round trip.

    Args:
        dsn: the connection string; it overrides `defaults`.
        settings: PINNED, and more; nothing, if the first statement of the caller sets them.
        kind: the class of the connection.
        defaults: more for libpq, such as `fallback_application_name`.
        any_owner: allow any owner of the schema pgq; the caller checks it before calling anything.

    Raises ConnectionFailed, and SchemaNotTrusted before anything in the schema pgq is called.
    """
    connection = await _connect(dsn, kind, connect_parameters(dsn, {}, defaults or {}))
    statements = set_statements(settings, connection.info.server_version)
    if any_owner:
        return await _set_up(connection, statements)
    # Where the default is SERIALIZABLE, a query would be refused on a standby.
    text = f"begin isolation level read committed; {statements}; {UNTRUSTED_OWNER}; commit"
    return await _set_up(connection, text, _check_owner)


async def open_for_application(dsn: str, parameters: Mapping[str, Any]) -> AsyncConnection[Any]:
    """Connect for an application, in autocommit, or raise ConnectionFailed.

    Of its settings only the default isolation is ours.
    """
    keywords = connect_parameters(dsn, parameters)
    connection = await _connect(dsn, AsyncConnection, keywords)
    if ISOLATION in connection.info.options:  # somebody chose it for this very session
        return connection
    wanted = READ_COMMITTED.format(sql.Literal(connection.info.backend_pid))
    return await _set_up(connection, wanted.as_string(None))


async def _connect(
    dsn: str, kind: type[AnyAsyncConnection], keywords: dict[str, Any]
) -> AnyAsyncConnection:
    try:
        return await kind.connect(dsn, autocommit=True, **keywords)
    except (psycopg.OperationalError, psycopg.ProgrammingError, UnicodeError) as exc:
        raise connection_failed(exc) from exc


async def _set_up(
    connection: AnyAsyncConnection,
    statements: str,
    check: Callable[[AsyncCursor[Any]], Awaitable[None]] | None = None,
) -> AnyAsyncConnection:
    try:
        if statements:
            cursor = await connection.execute(statements.encode(), prepare=False)
            if check:
                await check(cursor)
    except BaseException:
        await AsyncConnection.close(connection)  # that of a consumer is for its handlers: it raises
        raise
    return connection


async def _check_owner(cursor: AsyncCursor[Any]) -> None:
    """Raise SchemaNotTrusted if UNTRUSTED_OWNER, the one statement that returns rows, found one."""
    while cursor.description is None and cursor.nextset():
        pass
    if found := await cursor.fetchone():
        raise not_trusted(*found)
