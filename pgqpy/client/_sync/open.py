"""[Generated from _async/open.py by tools/unasync.py: edit that file, not this one.] The opening of connections: no other module connects to a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import Connection, sql
from psycopg.errors import LockNotAvailable

from pgqpy.client.opening import (
    ISOLATION,
    READ_COMMITTED,
    SCHEMA_AND_UNTRUSTED,
    check_encoding,
    check_owner,
    connect_parameters,
    connection_failed,
    set_query,
)
from pgqpy.errors import ConnectionFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

AnyAsyncConnection = TypeVar("AnyAsyncConnection", bound=Connection[Any])

LOCK_TIMEOUT = "5s"  # while a session begins
CLIENTS = 3  # that look, behind a pooler, whether they get the session of another one
SHARED = (
    "behind a pooler in transaction mode, which shares sessions between its clients: connect "
    "directly to the server, or through a pooler in session mode; only a shared "
    "consumer can use such sessions"
)
CATALOGUE_LOCKED = (
    "another session locks a system catalogue of this database: look at pg_locks from another "
    "database of the server, and end it"
)
FULL = (
    "the pooler has no session for a second connection, which would show whether it shares "
    "sessions: enlarge its pool, or connect directly to the server"
)


def open_session(
    dsn: str,
    settings: Mapping[str, str],
    *,
    kind: type[AnyAsyncConnection],
    defaults: Mapping[str, Any] | None = None,
    any_owner: bool = False,
    any_session: bool = False,
) -> AnyAsyncConnection:
    """Connect for pgqpy's own SQL, in autocommit; set and check the session in one round trip.

    Args:
        dsn: the connection string; it overrides `defaults`.
        settings: PINNED, and more.
        kind: the class of the connection.
        defaults: more for libpq, such as `fallback_application_name`.
        any_owner: allow any owner of the schema pgq, or no schema; the caller checks the owners, in
            the statement that finds the schema, before it calls anything.
        any_session: take a session that a pooler may share. Nothing stays set in it, and nothing is
            prepared: prepare_threshold is None.

    Raises ConnectionFailed, also for a session that a pooler shares, in which nothing stays set,
    and for one that waits for a locked catalogue. Raises SchemaRefused and SchemaMissing before
    anything in the schema pgq is called.
    """
    keywords = connect_parameters(dsn, {}, defaults or {})
    connection = _connect(dsn, kind, keywords)
    try:
        expected = connection.info.backend_pid
        owners = "" if any_owner else SCHEMA_AND_UNTRUSTED
        # A pooler makes up process ids: then only the answer tells the one of the server's session.
        while True:
            pid = _set_up(connection, settings, expected, owners)
            if pid == expected:
                break
            if any_session:
                connection.prepare_threshold = None
                break
            _refuse_shared(connection, pid, dsn, keywords)
            expected = pid
    except BaseException:
        Connection.close(connection)  # that of a consumer is for its handlers: it raises
        raise
    return connection


def open_for_application(dsn: str, parameters: Mapping[str, Any]) -> Connection[Any]:
    """Connect for an application, in autocommit, or raise ConnectionFailed.

    Of its settings only the default isolation is ours.
    """
    keywords = connect_parameters(dsn, parameters)
    connection = _connect(dsn, Connection, keywords)
    if ISOLATION in connection.info.options:  # somebody chose it for this very session
        return connection
    wanted = READ_COMMITTED.format(sql.Literal(connection.info.backend_pid))
    try:
        connection.execute(wanted, prepare=False)
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(
    dsn: str, kind: type[AnyAsyncConnection], keywords: dict[str, Any]
) -> AnyAsyncConnection:
    try:
        connection = kind.connect(dsn, autocommit=True, **keywords)
    except (psycopg.OperationalError, psycopg.ProgrammingError, UnicodeError) as exc:
        raise connection_failed(exc, dsn) from exc
    try:
        check_encoding(connection)
    except ConnectionFailed:
        Connection.close(connection)  # as above
        raise
    return connection


def _set_up(
    connection: Connection[Any], settings: Mapping[str, str], pid: int, owners: str
) -> int:
    """Make the settings if the server's session has this process id; return its id.

    `owners` is SCHEMA_AND_UNTRUSTED, or empty: then no owner is checked. Raises SchemaMissing,
    SchemaRefused.
    """
    query = set_query(settings, connection.info.server_version, pid)
    # Where the default is SERIALIZABLE, a query would be refused on a standby.
    # No query comes before the timeout: it would wait for a catalogue that somebody has locked.
    timeout = f"set local lock_timeout = '{LOCK_TIMEOUT}'"
    text = f"begin isolation level read committed; {timeout}; {query}; {owners}; commit"
    try:
        cursor = connection.cursor()
        cursor.execute(text.encode(), prepare=False)
    except LockNotAvailable as exc:
        raise ConnectionFailed(CATALOGUE_LOCKED) from exc
    cursor.nextset()
    cursor.nextset()
    row = cursor.fetchone()
    cursor.nextset()
    if owners:
        check_owner(cursor.fetchone())
    return int(row[-1]) if row else 0


def _refuse_shared(
    connection: Connection[Any], pid: int, dsn: str, keywords: dict[str, Any]
) -> None:
    """Raise ConnectionFailed if this connection changes its session, or others get the same.

    Several processes of a pooler, each with its own sessions, may share a port: so several clients.
    """
    mine, others = {pid}, set()
    for _ in range(CLIENTS):
        mine.add(_backend_pid(connection))
        other = _connect(dsn, Connection, keywords)
        try:
            others.add(_backend_pid(other))
        except psycopg.OperationalError as exc:
            raise ConnectionFailed(FULL) from exc
        finally:
            other.close()
    if len(mine) > 1 or not mine.isdisjoint(others):
        raise ConnectionFailed(SHARED)


def _backend_pid(connection: Connection[Any]) -> int:
    cursor = connection.execute("select pg_catalog.pg_backend_pid()", prepare=False)
    (pid,) = cursor.fetchone() or (0,)
    return int(pid)
