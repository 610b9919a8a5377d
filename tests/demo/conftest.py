"""A short demo as a process, with a place of its own for temporary files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.processes import PythonProcess
from tests.support.servers import memory

Spawn = Callable[..., PythonProcess]

SHORT = ["--seconds", "2", "--clients", "2"]
# A tenth of the accounts: making a million of them takes as long as all the rest.
SMALL = """
from pgqpy.demo import main, scenario
scenario.SCALE = main.SCALE = 1
from pgqpy.cli import main
main()
"""


def schemas(dsn: str) -> set[str]:
    """Return the engine's and the demo's schemas that are there."""
    query = "select nspname from pg_namespace where nspname ~ '^pgq'"
    with psycopg.connect(dsn) as connection:
        return {row[0] for row in connection.execute(query)}


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder for temporary files that the server's user can reach: pytest's own is private."""
    with tempfile.TemporaryDirectory(prefix="pgqpy-test-", dir=memory()) as folder:
        Path(folder).chmod(0o1777)
        yield Path(folder)


@pytest.fixture
def demo(spawn: Spawn, place: Path) -> Callable[..., PythonProcess]:
    """Start a short, small demo whose temporary files are in `place`; by default without Spark."""

    def start(*options: str, spark: bool = False) -> PythonProcess:
        # The application's own database is not for a demo, unless --dsn says so.
        env = {"TMPDIR": str(place), "PGQPY_DSN": "host=/nowhere"}
        if "--dsn" not in options:
            env |= {"PGHOSTADDR": "192.0.2.1", "PGPORT": "1", "PGSERVICE": "nowhere"}
        if not spark:
            env["JAVA_HOME"] = "/nowhere"
        return spawn("-c", SMALL, "demo", *SHORT, *options, env=env)

    return start
