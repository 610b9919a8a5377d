"""The PostgreSQL server a test run uses: PGQPY_TEST_DSN, else Docker, else the embedded one."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import tempfile
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from unittest.mock import patch

from psycopg.conninfo import make_conninfo

from pgqpy import embedded
from pgqpy.child_processes import start_guard
from pgqpy.testing import EmbeddedServer, embedded_server

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DOCKER_SOCKET = "/var/run/docker.sock"
POSTGRES_IMAGE = os.environ.get("PGQPY_TEST_IMAGE", "postgres:18")

SETTINGS: Mapping[str, str | int] = {
    "max_connections": 200,
    "max_prepared_transactions": 20,
    "max_locks_per_transaction": 256,  # queues are tables, and tests make many in a transaction
}
FAST: Mapping[str, str | int] = {
    **SETTINGS,
    "fsync": "off",  # never for a crash test
    "max_wal_size": "256MB",  # it may live in memory
    "shared_buffers": "16MB",  # each clone and drop of a database searches them: 45 ms in 128 MB
}
MEMORY = Path("/dev/shm")  # cloning a database takes 10 ms there, and up to 300 ms on a disk
ROOM = 2 * 1024**3  # bytes


class Server(Protocol):
    """What tests need of a server: the connection string of any of its databases."""

    def dsn(self, dbname: str = "postgres") -> str:
        """Return the connection string of this database, as a superuser."""
        ...


class NamedServer:
    """A server known by a connection string only."""

    def __init__(self, dsn: str) -> None:
        """Take the connection string of any database of the server."""
        self._dsn = dsn

    def dsn(self, dbname: str = "postgres") -> str:
        """Return the connection string of another database of the same server."""
        return make_conninfo(self._dsn, dbname=dbname)


@contextmanager
def chosen_server() -> Iterator[Server]:
    """Run the server that the environment asks for.

    PGQPY_TEST_DSN names one that runs. PGQPY_TEST_PG is `docker`, `embedded`, or the folder of
    another PostgreSQL's programs (`…/15/bin`). Without either: Docker where a daemon answers and
    has the image or can fetch it, else the embedded server.
    """
    dsn, choice = os.environ.get("PGQPY_TEST_DSN"), os.environ.get("PGQPY_TEST_PG", "")
    if dsn:
        yield NamedServer(dsn)
    elif choice == "docker" or (not choice and _docker_can()):
        with _docker_server() as server:
            yield server
    else:
        with private_server(FAST, other_programs()) as server:
            yield server


@contextmanager
def private_server(
    settings: Mapping[str, str | int], bin_dir: Path | None, *, tcp: bool = False
) -> Iterator[EmbeddedServer]:
    """Run an embedded server, in memory where there is room.

    All have the same system identifier and password: their clusters are copies of one.
    """
    options: Any = {"settings": settings, "bin_dir": bin_dir, "tcp": tcp, "within": memory()}
    with ExitStack() as stack:
        with patch.object(embedded, "EmbeddedServer", CopiedServer):  # for this one only
            server = stack.enter_context(embedded_server(**options))
        yield server


class CopiedServer(EmbeddedServer):
    """A server whose cluster is copied: initdb takes seconds of CPU time, a copy 0.1 s."""

    def run(self, program: str, *args: str) -> str:
        """Run a program of the server, but for initdb copy a cluster that it made before."""
        if program != "initdb":
            return super().run(program, *args)
        made = _made_cluster(self.bin_dir, self._user)
        shutil.copyfile(made / "password", self.directory / "password")
        return self.execute("cp", "-a", f"{made / 'data'}/.", str(self.data))


@cache
def _made_cluster(bin_dir: Path, user: str | None) -> Path:
    """Make a cluster that is never started; it is removed when this process ends."""
    place = Path(tempfile.mkdtemp(prefix="pgqpy-made-", dir=memory()))
    atexit.register(start_guard('rm -rf "$1"', str(place)).communicate)
    EmbeddedServer(place, bin_dir, user, None).create({})
    return place


def memory() -> Path | None:
    """Return a folder in memory, if there is room."""
    return MEMORY if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM else None


def other_programs() -> Path | None:
    """Return the folder that PGQPY_TEST_PG names, or None for the embedded server's own."""
    choice = os.environ.get("PGQPY_TEST_PG", "")
    if choice in ("", "docker", "embedded"):
        return None
    if not (Path(choice) / "initdb").exists():
        message = f"PGQPY_TEST_PG={choice}: not docker, embedded or a folder with initdb"
        raise RuntimeError(message)
    return Path(choice)


def _docker_can() -> bool:
    """Say whether a Docker daemon answers and has the image, or can fetch it."""
    if "DOCKER_HOST" not in os.environ and not _accepts(DOCKER_SOCKET):
        return False  # the usual case: nothing to import
    import docker

    try:
        client = docker.from_env(timeout=60)
    except docker.errors.DockerException:
        return False
    try:
        return bool(client.images.list(POSTGRES_IMAGE) or client.images.pull(POSTGRES_IMAGE))
    except docker.errors.DockerException:
        return False
    finally:
        client.close()


def _accepts(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
        return True


@contextmanager
def _docker_server() -> Iterator[Server]:
    from testcontainers.community.postgres import PostgresContainer

    options = [word for name, value in FAST.items() for word in ("-c", f"{name}={value}")]
    container: Any = PostgresContainer(POSTGRES_IMAGE, username="postgres", driver=None)
    container.with_env("POSTGRES_HOST_AUTH_METHOD", "trust")  # for the roles that tests make
    container.with_tmpfs_mount("/var/lib/postgresql")
    with container.with_command(["postgres", *options]):
        yield NamedServer(container.get_connection_url())
