"""How the demo behaves on somebody else's server: it asks, it tells, it leaves nothing behind."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from psycopg import sql

from pgqpy.client._sync import connect_pinned
from pgqpy.demo.balances import QUEUE
from pgqpy.demo.connection import SCHEMA
from pgqpy.demo.errors import DemoFailed
from pgqpy.errors import InstallRefused, QueueNotFound
from pgqpy.install import install, status, uninstall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from psycopg import Connection

    from pgqpy import Client
    from pgqpy.install import Status

    Say = Callable[[str], None]

LOCK = (7366513, 7)  # a session advisory lock: one demo a database
COMMENT = "made by pgqpy demo, which drops it at its end"
WHOSE = """
    select to_regnamespace(%s) is not null, obj_description(to_regnamespace(%s), 'pg_namespace')
"""


@contextmanager
def invited(dsn: str, say: Say) -> Iterator[None]:
    """Prepare the database for the demo, and put it back as it was at the end."""
    with connect_pinned(dsn) as keeper:
        _take_lock(keeper.connection)
        before = status(keeper.connection)
        _check(before)
        _clear(keeper)
        say(f"database {before.database}: schema {SCHEMA} and queue {QUEUE} are made, and go again")
        try:
            _enter(keeper, before, say)
            yield
        finally:
            _leave(dsn, before, say)


def make_schema(connection: Connection[Any]) -> None:
    """Make the schema that the demo's tables go into, marked as ours."""
    connection.execute(sql.SQL("create schema {}").format(sql.Identifier(SCHEMA)))
    connection.execute(
        sql.SQL("comment on schema {} is {}").format(sql.Identifier(SCHEMA), sql.Literal(COMMENT))
    )


def _take_lock(connection: Connection[Any]) -> None:
    row = connection.execute("select pg_try_advisory_lock(%s, %s)", LOCK).fetchone()
    if not (row and row[0]):
        raise DemoFailed("another pgqpy demo runs in this database: wait until it has ended")


def _check(before: Status) -> None:
    """Raise unless the database has our schema in this version, or can get it."""
    if before.state == "extension":
        raise DemoFailed("this database has the extension pgq: take another one for the demo")
    if before.state in ("old", "newer", "foreign", "empty"):
        what = f"the schema pgq here is {before.state}"
        raise DemoFailed(f"{what}: pgqpy schema status says more, or take another database")


def _clear(client: Client) -> None:
    """Remove what a demo left that was killed; DemoFailed if the schema is not a demo's."""
    row = client.connection.execute(WHOSE, [SCHEMA, SCHEMA]).fetchone()
    if row and row[0] and row[1] != COMMENT:
        what = f"the schema {SCHEMA} is not from a demo"
        raise DemoFailed(f"{what}: rename it, or take another database")
    _drop_schema(client.connection)


def _enter(client: Client, before: Status, say: Say) -> None:
    if before.state == "missing":
        install(client.connection)
        say("the schema pgq was missing: it is installed, and goes again")
    else:
        say("the schema pgq is there and stays; the demo's ticker serves your queues too meanwhile")
        _drop_queue(client)
    make_schema(client.connection)


def _leave(dsn: str, before: Status, say: Say) -> None:
    """Remove everything; on a connection of its own, whatever happened to the first."""
    with connect_pinned(dsn) as client:
        _drop_schema(client.connection)
        if status(client.connection).state == "missing":
            return
        _drop_queue(client)
        if before.state == "missing":
            _uninstall(client.connection, before, say)
    say(f"schema {SCHEMA} and queue {QUEUE} are dropped")


def _uninstall(connection: Connection[Any], before: Status, say: Say) -> None:
    try:
        uninstall(connection, roles=len(before.roles) == 0)
    except InstallRefused as exc:
        say(f"the schema pgq stays: {exc}")
    else:
        say("the schema pgq is removed")


def _drop_schema(connection: Connection[Any]) -> None:
    connection.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(SCHEMA)))


def _drop_queue(client: Client) -> None:
    try:
        client.drop_queue(QUEUE, force=True)
    except QueueNotFound:
        return
