"""The parameters of a new connection, and the error when it fails. No I/O."""

from __future__ import annotations

import os
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from pgqpy.errors import ConnectionFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

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
