"""What a connection is opened with, what a session is set to, and the checks of both. No I/O."""

from __future__ import annotations

import os
import re
import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from pgqpy.errors import ConnectionFailed, SchemaMissing, SchemaRefused
from pgqpy.texts import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from typing_extensions import LiteralString

PG_17 = 170000
ISOLATION = "default_transaction_isolation"

# For a session that runs no SQL but ours. A role that may create in a schema of the search_path
# could put a function or an operator there that fits our statements better than pg_catalog's, and
# that would run with our rights. Intervals and dates that come as text are read in one style. A row
# that row-level security would hide is an error: a hidden event would be lost.
PINNED: Mapping[str, str] = {
    "search_path": "pg_catalog, pg_temp",
    "row_security": "off",
    ISOLATION: "read committed",
    "standard_conforming_strings": "on",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "array_nulls": "on",  # else NULL in an array literal is a text of four letters
}

# An application's own session keeps all its settings but one: only an application that asked for
# SERIALIZABLE expects serialization failures, and ticks need READ COMMITTED. Nothing is set where
# the default is READ COMMITTED, nor behind a pooler, which makes up process ids: other clients of
# the pooler would get the setting too.
READ_COMMITTED = sql.SQL("""
    select pg_catalog.set_config('default_transaction_isolation', 'read committed', false)
     where pg_catalog.current_setting('default_transaction_isolation')
               operator(pg_catalog.<>) 'read committed'
       and pg_catalog.pg_backend_pid() operator(pg_catalog.=) {}
""")


# One row: the process id of the server's session. Where another one was expected, behind a pooler,
# the settings end with the transaction: the session may be shared.
_SETTINGS = sql.SQL("""
    select {}, pid from (select pg_catalog.pg_backend_pid()) session (pid)
""")
_SETTING = sql.SQL("pg_catalog.set_config({}, {}, pid operator(pg_catalog.<>) {})")


def set_query(settings: Mapping[str, str], server_version: int, pid: int) -> str:
    """Return a query that makes the settings in the session of this process id.

    In any other session they last until the end of the transaction.
    """
    chosen = (
        _SETTING.format(name, value, pid)
        for name, value in settings.items()
        if name != "transaction_timeout" or server_version >= PG_17
    )
    return _SETTINGS.format(sql.SQL(", ").join(chosen)).as_string(None)


def reset_statements(names: Iterable[str]) -> str:
    """Return RESET statements."""
    return "; ".join(f"reset {name}" for name in names)


# A dead peer is noticed within about a minute, whatever the system's defaults (two hours on Linux).
DEFAULTS: dict[str, Any] = {
    "fallback_application_name": "pgqpy",
    "connect_timeout": 10,  # seconds, for each host
    "keepalives": 1,
    "keepalives_idle": 20,  # seconds
    "keepalives_interval": 10,  # seconds
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,  # milliseconds
}

SERVER = ("PGHOST", "PGHOSTADDR", "PGPORT", "PGSERVICE")  # variables that say where it is
WRONG_ENCODING = "22P05"  # the SQLSTATE for text that an encoding lacks
RECODE = "move the queue to a database in UTF8 (create database … encoding 'UTF8')"
NOTHING_NAMED = (
    "no server was named, such as postgresql://user@host/dbname: a command takes PGQPY_DSN or "
    "--dsn, a program pgqpy.connect(dsn), and both take libpq's PGHOST; `pgqpy demo` needs none"
)


def connect_parameters(
    dsn: str, chosen: Mapping[str, Any], defaults: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """Return the keywords for psycopg's connect: those `chosen`, and ours where the DSN has none.

    `defaults` override those of this module. The encoding is always UTF-8: in any other, text of
    other alphabets cannot pass, and in SQL_ASCII psycopg returns bytes instead of str. Raises
    ConnectionFailed if the DSN cannot be parsed. Libpq's own message is withheld: it quotes the
    part that is wrong, which may be the password.
    """
    if not isinstance(dsn, str):
        msg = f"the DSN must be a str, not {type(dsn).__name__}"
        raise ConnectionFailed(msg)
    if "\0" in dsn:
        raise ConnectionFailed(_unreadable("it contains a NUL"))  # where libpq would cut it off
    if of_sqlalchemy := re.match(r"postgres(?:ql)?(\+\w+)://", dsn):
        raise ConnectionFailed(_unreadable(f"drop {of_sqlalchemy[1]}, which is SQLAlchemy's"))
    try:
        named = conninfo_to_dict(dsn)
    except (psycopg.ProgrammingError, UnicodeError):
        raise ConnectionFailed(_unreadable("it cannot be read")) from None
    _check_quoting(named)
    ours = {**DEFAULTS, **defaults}
    if "PGCONNECT_TIMEOUT" in os.environ:
        del ours["connect_timeout"]
    kept = {key: value for key, value in ours.items() if key not in named}
    return {**kept, **chosen, "client_encoding": "UTF8"}


def _check_quoting(named: dict[str, Any]) -> None:
    """Refuse a password that was not percent-encoded: libpq would print its rest as a host."""
    host, dbname, port = (str(named.get(key) or "") for key in ("host", "dbname", "port"))
    if "@" in host.lstrip("@") or "@" in dbname:
        raise ConnectionFailed(_unreadable("the host or database contains an @"))
    if not all(part.isdigit() for part in port.split(",") if part):
        raise ConnectionFailed(_unreadable("the port is not a number"))


def _unreadable(reason: str) -> str:
    return (
        f"the DSN is not valid, {reason}: write postgresql://user@host:port/dbname "
        "(special characters of a password percent-encoded) "
        "or 'host=… port=… dbname=… user=…' (values with spaces in quotes)"
    )


CALLS_OF_LIBRARIES = {
    "sqlalchemy": "pgqpy.sqlalchemy.emit(session, …) inserts an event (with asyncio aemit); a "
    "client takes session.connection().connection.driver_connection",
    "asyncpg": "await pgqpy.asyncpg.emit(connection, …) inserts an event",
    "django": "pgqpy.django.emit(…) inserts an event; a client takes connection.connection, which "
    "is None until the first query or connection.ensure_connection()",
}


def call_for(connection: object) -> str | None:
    """Say which call takes a session or connection of another library; None: pgqpy has none.

    Django's connection is None before its first query.
    """
    library = type(connection).__module__.partition(".")[0]
    if connection is None and "django" in sys.modules:
        library = "django"
    return CALLS_OF_LIBRARIES.get(library)


def check_encoding(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Raise ConnectionFailed unless texts come and go as they are stored: in UTF-8.

    It looks at what the server has reported, and asks nothing.
    """
    reported = connection.pgconn.parameter_status
    client, server = reported(b"client_encoding"), reported(b"server_encoding")
    if server not in (b"UTF8", None):  # a pooler may keep it to itself
        text = f"the encoding of this database is {server.decode()}: {RECODE}"
        raise ConnectionFailed(text, sqlstate=WRONG_ENCODING)
    if client not in (b"UTF8", None):
        text = f"the connection's client_encoding is {client.decode()}: set it to 'UTF8'"
        raise ConnectionFailed(text, sqlstate=WRONG_ENCODING)


def connection_failed(exc: Exception, dsn: str) -> ConnectionFailed:
    """Return the error that says in one line why there is no connection and what to do."""
    lines = [line.strip().rstrip(".") for line in str(exc).splitlines()]
    # The last line of libpq asks whether the server runs; the remedy says it.
    statements = [line for line in lines if line and not line.endswith("?")]
    reason = "; ".join(statements) or type(exc).__name__
    return ConnectionFailed(f"cannot connect: {reason}; {_remedy(exc, dsn)}")


def _remedy(exc: Exception, dsn: str) -> str:
    if isinstance(exc, psycopg.errors.ConnectionTimeout):
        return "check that the server runs, and that host and port are right"
    pgconn = exc.pgconn if isinstance(exc, psycopg.Error) else None
    if pgconn is not None and pgconn.needs_password:
        return "give a password, in PGPASSWORD or ~/.pgpass"
    if pgconn is not None and pgconn.used_password:
        return "check user, password and database, in the DSN or the PG* variables"
    if not dsn.strip() and not any(name in os.environ for name in SERVER):
        return NOTHING_NAMED
    return "check that the server runs, and that host, port, user and database are right"


# Any role with CREATE on the database can make a schema pgq with functions of the right names. They
# run with the rights of the caller, who may be a superuser, and a caller may at least change its
# own password. The same goes for views, and for types with casts; operators and the rest are found
# by search_path only. So the owner of the schema, and of what is in it, is one of these:
# - a role that could act as the session's user anyway: this user, or a superuser;
# - the database's owner;
# - the role that the session has taken by SET ROLE: a user who sets this role declares trust in it.
# That the session's user is a member of the owner does not suffice: a superuser is a member of
# every role, and one with CREATEROLE of those that it made.
# Two functions belong to pgq_capture: they run with its rights, or not at all.
# It is session_user that counts, for code that runs as current_user may reset the role.
# One row, for the schema itself if its owner is wrong; none if all owners are right, or none exist.
UNTRUSTED_OWNER: LiteralString = """
    select pg_describe_object(held.class, held.object, 0) as object,
        r.rolname::text as owner, session_user::text as user, d.datname::text as database,
        held.class = 'pg_namespace'::regclass as whole
    from pg_namespace n
    join pg_database d on d.datname = current_database()
    cross join lateral (
        select 'pg_namespace'::regclass, n.oid, n.nspowner
        union all
        select 'pg_class'::regclass, oid, relowner from pg_class where relnamespace = n.oid
        union all
        select 'pg_proc'::regclass, oid, proowner from pg_proc where pronamespace = n.oid
        union all
        select 'pg_type'::regclass, oid, typowner from pg_type where typnamespace = n.oid
    ) held (class, object, owner)
    join pg_roles r on r.oid = held.owner
    where n.nspname = 'pgq' and r.oid <> d.datdba and r.rolname <> current_user
        and not pg_has_role(r.oid, session_user, 'member')
        and not (r.rolname = 'pgq_capture' and held.object = any (array[
            to_regprocedure('pgq.capture_row(record)'),
            to_regprocedure('pgq.capture_rows(anyarray, text[])')]::oid[]))
    order by whole desc, held.class desc, held.object
    limit 1
"""
# The schema's oid, null if there is none, and that row or nulls. No schema is not a trusted one:
# any role with CREATE on the database could make it, or give it this name, after a look for owners.
SCHEMA_AND_UNTRUSTED: LiteralString = f"""
    select n.oid as schema, found.*
    from (select) one
    left join pg_namespace n on n.nspname = 'pgq'
    left join ({UNTRUSTED_OWNER}) found on true
"""  # noqa: S608  # our own query within our own


def check_owner(row: Sequence[Any] | None) -> None:
    """Take the row of SCHEMA_AND_UNTRUSTED. Raises SchemaMissing, SchemaRefused."""
    schema, *untrusted = row or (None,)
    if schema is None:
        raise SchemaMissing
    if untrusted[0] is not None:
        raise not_trusted(*untrusted)


def not_trusted(
    object: str,  # the column's name, as are the others
    owner: str,
    user: str,
    database: str,
    whole: bool,  # noqa: FBT001  # see above
) -> SchemaRefused:
    """Return the error for a row of UNTRUSTED_OWNER: it names the owner, and what to do."""
    owned, role = printable(object), printable(owner)
    what = (
        f"the {owned} belongs to role {role}, which is neither a superuser nor the owner of the "
        f"database: its code would run with the rights of {printable(user)}"
    )
    remedy = (
        f"if {role} installed pgqpy, make it the owner of database {printable(database)}, or "
        f'take its role (PGOPTIONS="-c role={role}"); else drop the schema'
        if whole
        else "drop it, or give it to the owner of the schema if you know what it is"
    )
    return SchemaRefused(
        f"{what}: {remedy}", what=what, what_to_do=remedy, object=object, owner=owner
    )
