"""For an application's tests: servers, databases, time that moves, and what was inserted.

The fixtures of pytest in pgqpy_pytest.py call these.
"""

from __future__ import annotations

import itertools
import os
import secrets
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgqpy import locks
from pgqpy.client import connect
from pgqpy.embedded import EmbeddedServer, embedded_server
from pgqpy.errors import QueueNotFound
from pgqpy.install import install
from pgqpy.records import Event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import LiteralString

__all__ = [
    "EmbeddedServer",
    "advance",
    "embedded_server",
    "emitted",
    "new_database",
    "server_for_tests",
]

T = TypeVar("T")

# A crash may lose all: a test's database needs no disk. Each clone searches the shared buffers.
FAST: dict[str, str | int] = {"fsync": "off", "shared_buffers": "16MB"}
_numbers = itertools.count(1)

# What is due at a time. A sweep of a shared consumer then looks at all that is due, not only at
# what has become so since the last one.
ADVANCE: tuple[LiteralString, ...] = (
    "update pgq.retry_queue set ev_retry_after = ev_retry_after - %(length)s",
    "update pgq.delayed_event set ev_deliver_at = ev_deliver_at - %(length)s",
    "update pgq.inflight set run_due = run_due - %(length)s where run_due is not null",
    "update pgq.dedup_key set dedup_until = dedup_until - %(length)s",
    "update pgq.claim_rate set rate_time = rate_time - %(length)s",
    "update pgq.front set front_due = default, front_looked = default, front_swept = default",
)


class Server(Protocol):
    """A server that a test may make databases on."""

    def dsn(self, dbname: str = ..., /) -> str:
        """Return the connection string of a database."""


class NamedServer:
    """A server that runs already."""

    def __init__(self, dsn: str) -> None:
        """Take the connection string of a database of it."""
        self._dsn = dsn

    def dsn(self, dbname: str | None = None, /) -> str:
        """Return the connection string of a database; without a name, of the one given."""
        return make_conninfo(self._dsn, dbname=dbname)


@contextmanager
def server_for_tests(dsn: str | None = None) -> Iterator[Server]:
    """Yield the server of a DSN, whose role may create databases; None: a temporary one.

    Raises MissingExtra if that needs pgqpy[embedded].
    """
    if dsn:
        yield NamedServer(dsn)
        return
    with embedded_server(settings=FAST) as server:
        yield server


@contextmanager
def new_database(server: Server, template: str | None = None) -> Iterator[str]:
    """Make a database, yield its name, and drop it with all sessions on it.

    The schema is installed there; with a `template`, which nobody is connected to, it is copied.
    """
    name = f"pgqpy_test_{os.getpid()}_{next(_numbers)}_{secrets.token_hex(4)}"
    create = sql.SQL("create database {} template {}")
    with connect(server.dsn()) as admin:
        source = sql.Identifier(template or "template0")
        admin.connection.execute(create.format(sql.Identifier(name), source))
        try:
            if template is None:
                # Roles belong to the whole server: one process after the other makes them.
                key = [locks.ENGINE, locks.INSTALLING]
                admin.connection.execute("select pg_advisory_lock(%s, %s)", key)
                with connect(server.dsn(name)) as client:
                    install(client.connection)
                admin.connection.execute("select pg_advisory_unlock(%s, %s)", key)
            yield name
        finally:
            drop = sql.SQL("drop database {} with (force)")
            admin.connection.execute(drop.format(sql.Identifier(name)))


def advance(dsn: str, **length: float) -> None:
    """Let time pass in a test's database: `advance(dsn, hours=1)`, or other words of timedelta.

    Retries, delayed events and leases of receivers are due by so much earlier, and so are the ends
    of dedup keys. The server's clock stays, and so does that of cron, and of processes that run.
    """
    with connect(dsn) as client, client.transaction():
        for statement in ADVANCE:
            client.connection.execute(statement, {"length": timedelta(**length)})


@overload
def emitted(dsn: str, what: str) -> list[Event]: ...
@overload
def emitted(dsn: str, what: type[T]) -> list[T]: ...
def emitted(dsn: str, what: str | type[Any]) -> list[Any]:
    """Return the events that were committed to a queue, delayed ones too, by their ids.

    `what` is the name of the queue, or a class of typed events: then its instances are returned.
    """
    if isinstance(what, str):
        return _events(dsn, what)
    from pgqpy.typed_events import kind_of  # noqa: PLC0415  # pydantic takes 0.1 s

    kind = kind_of(what)
    return [kind.read(event) for event in _events(dsn, kind.queue) if event.type == kind.type]


def _events(dsn: str, queue: str) -> list[Event]:
    with connect(dsn) as client:
        found = client.connection.execute(
            "select queue_id, queue_data_pfx from pgq.queue where queue_name = %s", [queue]
        ).fetchone()
        if found is None:
            raise QueueNotFound(queue=queue)
        number, tables = found
        select = sql.SQL(
            """
            select ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data,
                   ev_extra1, ev_extra2, ev_extra3, ev_extra4
              from {} where ev_owner is null
             union all
            select ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data,
                   ev_extra1, ev_extra2, ev_extra3, ev_extra4
              from pgq.delayed_event where ev_queue = %s
             order by ev_id"""
        ).format(sql.Identifier(*tables.split(".")))
        return [Event._make(row) for row in client.connection.execute(select, [number])]
