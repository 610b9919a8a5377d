"""Tools for an application's tests: servers, databases, earlier due times, inserted events."""

from __future__ import annotations

import itertools
import os
import secrets
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, overload

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

    from pgqpy.client import Client

__all__ = ["EmbeddedServer", "advance", "embedded_server", "emitted", "new_database"]

T = TypeVar("T")

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


@contextmanager
def new_database(server: str, template: str | None = None) -> Iterator[str]:
    """Make a database on the server of a DSN, yield its name, and drop it with its sessions.

    The schema is installed there; with a `template`, which nobody is connected to, it is copied.
    """
    name = f"pgqpy_test_{os.getpid()}_{next(_numbers)}_{secrets.token_hex(4)}"
    create, drop = "create database {} template {}", "drop database {} with (force)"
    with connect(server) as client:
        execute, new = client.connection.execute, sql.Identifier(name)
        execute(sql.SQL(create).format(new, sql.Identifier(template or "template0")))
        try:
            if template is None:
                # Roles belong to the whole server: one process after the other makes them.
                execute("select pg_advisory_lock(%s, %s)", [locks.ENGINE, locks.INSTALLING])
                with connect(make_conninfo(server, dbname=name)) as inside:
                    install(inside.connection)
                execute("select pg_advisory_unlock_all()")
            yield name
        finally:
            execute(sql.SQL(drop).format(new))


def advance(dsn: str, **length: float) -> None:
    """Make all that waits in a test's database due earlier: `advance(dsn, hours=1)`.

    These are retries, delayed events, leases, ends of dedup keys, and rates. `length` is in words
    of timedelta. The server's clock, the times of events, cron and running processes do not change.
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
    Raises QueueNotFound.
    """
    if isinstance(what, str):
        with connect(dsn) as client:
            return inserted_events(client, what)
    from pgqpy.typed_events import kind_of  # noqa: PLC0415  # pydantic takes 0.1 s

    kind = kind_of(what)
    return [kind.read(event) for event in emitted(dsn, kind.queue) if event.type == kind.type]


def inserted_events(client: Client, queue: str) -> list[Event]:
    """Return the events of a queue that the client's transaction sees, by their ids.

    Delayed events and those without a tick are among them, retried copies are not. Raises
    QueueNotFound.
    """
    fields = sql.SQL(", ").join(sql.Identifier(f"ev_{name}") for name in Event._fields)
    select = sql.SQL(
        "select {0} from {1} where ev_owner is null union all "
        "select {0} from pgq.delayed_event where ev_queue = %s order by ev_id"
    )
    queue_id, table = event_tables(client, queue)
    rows = client.connection.execute(select.format(fields, table), [queue_id]).fetchall()
    return [Event._make(row) for row in rows]


def event_tables(client: Client, queue: str) -> tuple[int, sql.Identifier]:
    """Return a queue's id, and the parent of its event tables. Raises QueueNotFound."""
    find = "select queue_id, queue_data_pfx from pgq.queue where queue_name = %s"
    found: Any = client.connection.execute(find, [queue]).fetchone()
    if found is None:
        raise QueueNotFound(queue=queue)
    return found[0], sql.Identifier(*found[1].split("."))
