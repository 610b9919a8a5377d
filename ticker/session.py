"""The daemon's databases and sessions: open, check the database, name it, and break off."""

from __future__ import annotations

import math
import os
import socket
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import pq

from pgqpy import install
from pgqpy.client import connect_as_tool
from pgqpy.client.opening import PINNED, connect_parameters
from pgqpy.errors import PgqError, SchemaMissing, SchemaRefused

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from psycopg import Connection

    from pgqpy import Client
    from pgqpy.ticker.logs import Report
    from pgqpy.ticker.settings import TickerSettings
    from pgqpy.ticker.web import Health


@dataclass(slots=True)
class Timing:
    """What the tick loop and the mover of one database tell each other.

    `ticked` is set by the loop. Whoever inserts a delayed event takes an id from the queue's
    sequence, so the loop ticks the queue after the commit. The mover then asks whether an
    event is due earlier than it knew.

    `due_at` and `moved_at` (monotonic seconds) are set by the mover. The loop polls soon after
    them, also where it would rest because no events come in.
    """

    ticked: Event = field(default_factory=Event)
    due_at: float = math.inf
    moved_at: float = -math.inf

    def quiet(self, last_tick: float, now: float) -> float:
        """Return the seconds since the last tick or move; 0 where a move is due."""
        due = self.due_at if self.due_at <= now else -math.inf
        return now - max(last_tick, self.moved_at, due)


# A server that vanishes without closing the connection (power cut, firewall) is noticed within
# about ten seconds: by keepalives while the daemon waits, by tcp_user_timeout while it sends.
CONNECT_DEFAULTS: dict[str, Any] = {
    "fallback_application_name": "pgqpy ticker",
    "connect_timeout": 5,  # seconds
    "keepalives_idle": 4,  # seconds
    "keepalives_interval": 2,  # seconds
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # milliseconds
}

# Settings of a role or a database that would break the daemon: a timeout meant for web requests
# would cancel a rotation. With keepalives the server notices that the daemon's machine is gone, and
# releases the ticker's lock for a standby.
SESSION_SETTINGS: dict[str, str] = {
    "statement_timeout": "0",  # first: it may be too strict for the others
    "tcp_keepalives_idle": "4",  # seconds, as are the next
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10000",  # milliseconds
    "default_transaction_read_only": "off",
    "idle_session_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "transaction_timeout": "0",
    "client_min_messages": "warning",
    "plan_cache_mode": "force_generic_plan",  # a new plan takes longer than the execution
    "jit": "off",  # it compiles for longer than the statements run
    **PINNED,
}


def open_client(
    dsn: str, settings: Mapping[str, str] = SESSION_SETTINGS, *, any_owner: bool = False
) -> Client:
    """Connect in autocommit mode, with SESSION_SETTINGS overridden by `settings`.

    The connection string overrides CONNECT_DEFAULTS. With `any_owner`, the caller checks the
    database before it calls anything. Raises ConnectionFailed, SchemaMissing, SchemaRefused.
    """
    merged = {**SESSION_SETTINGS, **settings}
    return connect_as_tool(dsn, merged, any_owner=any_owner, **CONNECT_DEFAULTS)


@dataclass(frozen=True)
class Database:
    """One database of the daemon: what its loop and its duties share."""

    dsn: str
    settings: TickerSettings
    health: Health
    report: Report
    sessions: Sessions
    stopping: Event
    timing: Timing = field(default_factory=Timing)


class StandbyServer(PgqError):
    """The server is a replica and takes no ticks."""

    what_to_do = "name the primary, or all servers with target_session_attrs=read-write"


# Errors that last until an administrator acts, so the database is tried less often.
REFUSED = (StandbyServer, SchemaMissing, SchemaRefused)


def check_database(client: Client) -> install.Status:
    """Return what is installed if this daemon can tick the database, else raise one of REFUSED.

    An older schema is ticked: a daemon that waits for the upgrade would stop every consumer.
    """
    connection = client.connection
    recovering = connection.execute("select pg_is_in_recovery()").fetchone()
    if recovering and recovering[0]:
        raise StandbyServer
    status = install.status(connection)
    if status.untrusted is not None:
        raise status.untrusted
    if status.state == "missing":
        raise SchemaMissing
    if status.state == "foreign":
        raise SchemaRefused("the schema pgq in this database is not pgqpy's: use another database")
    if status.state == "empty":
        msg = "the schema pgq has its tables without their rows: run pgqpy schema status"
        raise SchemaMissing(msg)
    if status.state == "extension":
        raise SchemaRefused("this database has the extension pgq: tick it with pgqd")
    if status.state == "newer":
        raise SchemaRefused.too_new(status.installed, status.shipped)
    return status


def label(dsn: str) -> str:
    """Return host:port/database of a connection string, completed by libpq's defaults and PG*.

    Raises ConnectionFailed if the string cannot be parsed.
    """
    connect_parameters(dsn, {})  # libpq's own error message may quote the password
    options = [*pq.Conninfo.get_defaults(), *pq.Conninfo.parse(dsn.encode())]
    known = {
        each.keyword.decode(): each.val.decode(errors="backslashreplace")  # PG* may be no UTF-8
        for each in options
        if each.val is not None
    }
    host = known.get("host") or known.get("hostaddr") or "local"
    database = known.get("dbname") or known.get("user", "")
    return f"{host}:{known.get('port', '5432')}/{database}"


def labels(dsns: Sequence[str]) -> list[str]:
    """Return a unique label for each connection string."""
    names = [label(dsn) for dsn in dsns]
    numbers = [names[:end].count(names[end - 1]) for end in range(1, len(names) + 1)]
    numbered = zip(names, numbers, strict=True)
    return [f"{name}#{number}" if number > 1 else name for name, number in numbered]


class Sessions:
    """The open sessions of one daemon; stopping breaks off the sessions that hang."""

    def __init__(self) -> None:
        self._open: set[Connection[Any]] = set()
        self.breaking = False

    @contextmanager
    def open(
        self, dsn: str, settings: Mapping[str, str], *, any_owner: bool = False
    ) -> Iterator[Client]:
        """Open a session for as long as the block lasts (see `open_client`)."""
        client = open_client(dsn, settings, any_owner=any_owner)
        connection = client.connection
        self._open.add(connection)
        if self.breaking:  # the others have been broken off
            break_off(connection)
        try:
            yield client
        finally:
            self._open.discard(connection)
            connection.close()

    def close(self) -> None:
        """Close every session; call this when no thread uses them any more."""
        while self._open:
            self._open.pop().close()

    def break_off(self) -> None:
        """Make every call that waits for a server fail at once, now and later."""
        self.breaking = True
        for connection in list(self._open):
            break_off(connection)


def break_off(connection: Connection[Any]) -> None:
    """Shut down the connection's socket: a thread that waits on it gets an error.

    After a close that thread would go on waiting, and a cancel request would itself wait for a
    server that may hang.
    """
    with suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(connection.fileno())) as own:
        own.shutdown(socket.SHUT_RDWR)
