"""Preparation of a user's database for the demo, and its restoration at the end."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from psycopg import sql

from pgqpy.client import connect_as_tool
from pgqpy.demo.abort import DemoFailed
from pgqpy.demo.balances import QUEUE
from pgqpy.errors import InstallRefused, QueueNotFound
from pgqpy.install import Status, install, status, uninstall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from psycopg import Connection

    from pgqpy import Client

    Say = Callable[[str], None]

SCHEMA = "pgqpy_demo"
LOCK = (7366513, 7)  # a session advisory lock: one demo in a database at a time
COMMENT = "made by pgqpy demo, which drops it at its end"
MAKE_SCHEMA = "create schema pgqpy_demo; comment on schema pgqpy_demo is {}"
DROP_SCHEMA = "drop schema if exists pgqpy_demo cascade"
FOREIGN_SCHEMA = """
    select exists (select from pg_namespace where nspname = 'pgqpy_demo'
        and obj_description(oid, 'pg_namespace') is distinct from %s)
"""


@contextmanager
def prepared(dsn: str, say: Say) -> Iterator[None]:
    """Prepare the database for the demo; restore it at the end of the block."""
    with connect_as_tool(dsn) as keeper:
        _take_lock(keeper.connection)
        before = status(keeper.connection)
        _check(before)
        _remove_leftovers(keeper.connection)
        say(f"database {before.database}: schema {SCHEMA} and queue {QUEUE} are made, and go again")
        try:
            _prepare(keeper, before, say)
            yield
        finally:
            _restore(dsn, before, say)


def make_schema(connection: Connection[Any]) -> None:
    """Make the schema of the demo's tables; its comment marks it as the demo's."""
    connection.execute(sql.SQL(MAKE_SCHEMA).format(sql.Literal(COMMENT)))


def _take_lock(connection: Connection[Any]) -> None:
    row = connection.execute("select pg_try_advisory_lock(%s, %s)", LOCK).fetchone()
    if not (row and row[0]):
        raise DemoFailed("another pgqpy demo runs in this database: wait until it has ended")


def _check(before: Status) -> None:
    """Raise DemoFailed unless the schema pgq has this version, or can be installed."""
    if before.state == "extension":
        raise DemoFailed("this database has the extension pgq: take another one for the demo")
    if before.problem is not None and before.state != "missing":
        raise DemoFailed("; ".join((*before.problem, "or take another database")))


def _remove_leftovers(connection: Connection[Any]) -> None:
    """Remove the rest of a killed demo; DemoFailed if the schema is not a demo's."""
    row = connection.execute(FOREIGN_SCHEMA, [COMMENT]).fetchone()
    if row and row[0]:
        what = f"the schema {SCHEMA} is not from a demo"
        raise DemoFailed(f"{what}: rename it, or take another database")
    connection.execute(DROP_SCHEMA)


def _prepare(client: Client, before: Status, say: Say) -> None:
    if before.state == "missing":
        install(client.connection)
        say("the schema pgq was missing: it is installed, and goes again")
    else:
        say("the schema pgq is there and stays; the demo's ticker serves your queues too meanwhile")
        _drop_queue(client)
    make_schema(client.connection)


def _restore(dsn: str, before: Status, say: Say) -> None:
    """Remove everything, on a new connection: the first may be broken."""
    with connect_as_tool(dsn) as client:
        client.connection.execute(DROP_SCHEMA)
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


def _drop_queue(client: Client) -> None:
    with suppress(QueueNotFound):
        client.drop_queue(QUEUE, force=True)
