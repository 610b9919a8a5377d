"""Crash a server as a power cut would, and ask it questions while it may crash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psutil
import psycopg

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pgqpy.testing import EmbeddedServer


def kill_server(server: EmbeddedServer) -> None:
    """SIGKILL the postmaster and all its children, and wait until they are gone."""
    postmaster = psutil.Process(server.pid)
    postmaster.suspend()  # so that it can neither restart its children nor end without them
    doomed = [*postmaster.children(recursive=True), postmaster]
    for process in doomed:
        process.kill()
    psutil.wait_procs(doomed, timeout=30)


def kill_backend(pid: int) -> None:
    """SIGKILL one backend: the server then restarts all the others."""
    psutil.Process(pid).kill()


def ask(dsn: str, query: str, *args: Any, timeout: float = 30) -> list[tuple[Any, ...]]:
    """Ask on a connection of its own, which a crash does not take along; again after a crash."""

    def answer() -> tuple[list[tuple[Any, ...]]] | None:
        try:
            with psycopg.connect(dsn, autocommit=True) as connection:
                return (connection.execute(query.encode(), args or None).fetchall(),)
        except psycopg.OperationalError:
            return None

    (rows,) = eventually(answer, timeout) or ([],)
    return rows
