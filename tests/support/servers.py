"""The PostgreSQL server a test run uses: PGQPY_TEST_DSN, else Docker, else the embedded one."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from psycopg.conninfo import make_conninfo

from pgqpy.testing import embedded_server

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

POSTGRES_IMAGE = os.environ.get("PGQPY_TEST_IMAGE", "postgres:18")

SETTINGS: Mapping[str, str | int] = {
    "max_connections": 200,
    "max_prepared_transactions": 20,
    "max_locks_per_transaction": 256,  # queues are tables, and tests make many in a transaction
}
FAST: Mapping[str, str | int] = {**SETTINGS, "fsync": "off"}  # never for a crash test


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


class SharedServer:
    """The one server of a pytest run: started when first asked for, stopped at its end."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._stack = ExitStack()
        self._server: Server | None = None

    def get(self) -> Server:
        """Return the server, started by the first call."""
        if self._server is None:
            self._server = self._stack.enter_context(chosen_server())
        return self._server

    def close(self) -> None:
        """Stop the server if it was started; closing twice is safe."""
        self._server = None
        self._stack.close()


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
    elif choice == "docker" or (not choice and _docker_answers()):
        with _docker_server() as server:
            yield server
    else:
        with embedded_server(settings=FAST, bin_dir=other_programs()) as server:
            yield server


def other_programs() -> Path | None:
    """Return the folder that PGQPY_TEST_PG names, or None for the embedded server's own."""
    choice = os.environ.get("PGQPY_TEST_PG", "")
    if choice in ("", "docker", "embedded"):
        return None
    if not (Path(choice) / "initdb").exists():
        message = f"PGQPY_TEST_PG={choice}: not docker, embedded or a folder with initdb"
        raise RuntimeError(message)
    return Path(choice)


def _docker_answers() -> bool:
    """Say whether a Docker daemon answers; most machines without one answer no at once."""
    import docker  # noqa: PLC0415  # only this choice needs it, and it is slow to import

    try:
        client = docker.from_env(timeout=5)
    except docker.errors.DockerException:
        return False
    try:
        return bool(client.ping())
    except docker.errors.DockerException:
        return False
    finally:
        client.close()


@contextmanager
def _docker_server() -> Iterator[Server]:
    from testcontainers.postgres import PostgresContainer  # noqa: PLC0415  # as above

    options = [word for name, value in FAST.items() for word in ("-c", f"{name}={value}")]
    container: Any = PostgresContainer(POSTGRES_IMAGE, username="postgres", driver=None)
    with container.with_command(["postgres", *options]):
        yield NamedServer(container.get_connection_url())
