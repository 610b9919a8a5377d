"""Preparation of a user's database for a demo or simulation, and its restoration at the end."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg import sql

from pgqpy import locks
from pgqpy.client import connect_as_tool
from pgqpy.errors import QueueNotFound, SchemaRefused
from pgqpy.install import Status, install, status, uninstall
from pgqpy.sandbox.abort import RunFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from psycopg import Connection

    from pgqpy import Client

    Say = Callable[[str], None]

TRY_LOCK = "select pg_try_advisory_lock(%s, %s)"
MAKE_SCHEMA = "create schema {}; comment on schema {} is {}"
DROP_SCHEMA = "drop schema if exists {} cascade"
FOREIGN_SCHEMA = """
    select exists (select from pg_namespace where nspname = %s
        and obj_description(oid, 'pg_namespace') is distinct from %s)
"""


class Contents(NamedTuple):
    """What a command makes in a database, and removes at its end."""

    command: str  # demo or simulate
    queue: str
    schema: str | None = None  # of its own tables; None: it has none
    keep: bool = False  # leave the queue, and the schema pgq, at the end

    @property
    def comment(self) -> str:
        """The comment that marks the schema as ours."""
        return f"made by pgqpy {self.command}, which drops it at its end"

    def __str__(self) -> str:
        """Name what is made, for use in a sentence."""
        queue = f"queue {self.queue}"
        return queue if self.schema is None else f"schema {self.schema} and {queue}"


@contextmanager
def prepared(dsn: str, contents: Contents, say: Say) -> Iterator[None]:
    """Prepare the database; restore it at the end of the block."""
    with connect_as_tool(dsn, any_owner=True) as keeper:
        _take_lock(keeper.connection)
        before = status(keeper.connection)
        _check(before)
        _remove_leftovers(keeper.connection, contents)
        end = "kept" if contents.keep else "dropped at the end"
        say(f"database {before.database}: made now, {end}: {contents}")
        try:
            _prepare(keeper, contents, before, say)
            yield
        finally:
            _restore(dsn, contents, before, say)


def make_schema(connection: Connection[Any], contents: Contents) -> None:
    """Make the schema of our own tables, if there are any; its comment marks it as ours."""
    if contents.schema is not None:
        name, comment = sql.Identifier(contents.schema), sql.Literal(contents.comment)
        connection.execute(sql.SQL(MAKE_SCHEMA).format(name, name, comment))


def _take_lock(connection: Connection[Any]) -> None:
    row = connection.execute(TRY_LOCK, (locks.ENGINE, locks.SANDBOX)).fetchone()
    if not (row and row[0]):
        what = "another pgqpy demo or simulation runs in this database"
        raise RunFailed(f"{what}: wait until it has ended")


def _check(before: Status) -> None:
    """Raise an error unless the schema pgq has this version, or can be installed."""
    if before.untrusted is not None:
        raise before.untrusted
    if before.state == "extension":
        raise RunFailed("this database has the extension pgq: take another one")
    if before.problem is not None and before.state != "missing":
        raise RunFailed("; ".join((*before.problem, "or take another database")))


def _remove_leftovers(connection: Connection[Any], contents: Contents) -> None:
    """Remove the rest of a killed run; RunFailed if the schema is not from one."""
    if contents.schema is None:
        return
    row = connection.execute(FOREIGN_SCHEMA, [contents.schema, contents.comment]).fetchone()
    if row and row[0]:
        what = f"the schema {contents.schema} is not from pgqpy {contents.command}"
        raise RunFailed(f"{what}: rename it, or take another database")
    _drop_schema(connection, contents)


def _prepare(client: Client, contents: Contents, before: Status, say: Say) -> None:
    if before.state == "missing":
        install(client.connection)
        stays = "stays" if contents.keep else "goes again"
        say(f"the schema pgq was missing: it is installed, and {stays}")
    else:
        say("the schema pgq is there and stays; our ticker serves your queues too meanwhile")
        _drop_queue(client, contents)
    make_schema(client.connection, contents)


def _restore(dsn: str, contents: Contents, before: Status, say: Say) -> None:
    """Remove everything, on a new connection: the first may be broken."""
    if contents.keep:
        say(f"kept: {contents}")
        return
    with connect_as_tool(dsn, any_owner=True) as client:
        _drop_schema(client.connection, contents)
        found = status(client.connection)
        if found.untrusted is not None:
            raise found.untrusted
        if found.state == "missing":
            return
        _drop_queue(client, contents)
        if before.state == "missing":
            _uninstall(client.connection, before, say)
    say(f"dropped: {contents}")


def _uninstall(connection: Connection[Any], before: Status, say: Say) -> None:
    try:
        uninstall(connection, roles=len(before.roles) == 0)
    except SchemaRefused as exc:
        say(f"the schema pgq stays: {exc}")
    else:
        say("the schema pgq is removed")


def _drop_schema(connection: Connection[Any], contents: Contents) -> None:
    if contents.schema is not None:
        connection.execute(sql.SQL(DROP_SCHEMA).format(sql.Identifier(contents.schema)))


def _drop_queue(client: Client, contents: Contents) -> None:
    with suppress(QueueNotFound):
        client.drop_queue(contents.queue, force=True)
