"""[Generated from _async_open.py by tools/unasync.py: edit that file, not this one.] Opening of connections: no other module connects to a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import Connection, sql

from pgqpy.client import _dsn
from pgqpy.client._session import ISOLATION, READ_COMMITTED, setting

if TYPE_CHECKING:
    from collections.abc import Mapping

AnyAsyncConnection = TypeVar("AnyAsyncConnection", bound=Connection[Any])


def open_session(
    dsn: str,
    settings: Mapping[str, str],
    *,
    kind: type[AnyAsyncConnection],
    defaults: Mapping[str, Any] | None = None,
) -> AnyAsyncConnection:
    """Connect for SQL of ours only, in autocommit, and set all that in one round trip.

    Args:
        dsn: where; what it says itself goes before `defaults`.
        settings: PINNED, and more; nothing, if the first statement of the caller sets them.
        kind: of the connection.
        defaults: more for libpq, such as `fallback_application_name`.

    Raises:
        ConnectionFailed: says what to do.
    """
    connection = _connect(dsn, kind, _dsn.parameters(dsn, {}, defaults or {}))
    return _set_up(connection, setting(settings, connection.info.server_version))


def open_for_application(dsn: str, parameters: Mapping[str, Any]) -> Connection[Any]:
    """Connect for an application, in autocommit; only its default isolation is ours.

    Raises:
        ConnectionFailed: says what to do.
    """
    keywords = _dsn.parameters(dsn, parameters)
    connection = _connect(dsn, Connection, keywords)
    if ISOLATION in connection.info.options:  # somebody chose it for this very session
        return connection
    wanted = READ_COMMITTED.format(sql.Literal(connection.info.backend_pid))
    return _set_up(connection, wanted.as_string(None))


def _connect(
    dsn: str, kind: type[AnyAsyncConnection], keywords: dict[str, Any]
) -> AnyAsyncConnection:
    try:
        return kind.connect(dsn, autocommit=True, **keywords)
    except (psycopg.OperationalError, psycopg.ProgrammingError, UnicodeError) as exc:
        raise _dsn.failed(exc) from exc


def _set_up(connection: AnyAsyncConnection, statements: str) -> AnyAsyncConnection:
    try:
        if statements:
            connection.execute(statements.encode(), prepare=False)
    except BaseException:
        connection.close()
        raise
    return connection
