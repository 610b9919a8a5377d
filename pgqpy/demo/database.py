"""The demo's database, and pgbench: make its tables, run the workload, read its summary."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

from pgqpy.demo.balances import QUEUE
from pgqpy.embedded import wheel_programs
from pgqpy.errors import MissingExtra
from pgqpy.sandbox import database
from pgqpy.sandbox.database import Contents
from pgqpy.sandbox.processes import RunFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pgqpy.sandbox.processes import Child

CONTENTS = Contents(command="demo", queue=QUEUE, schema="pgqpy_demo")


@dataclass(frozen=True)
class DemoDatabase(database.Database):
    """A database with the schemas pgq and pgqpy_demo, and the program pgbench."""

    pgbench: str  # its path


@contextmanager
def open_database(
    dsn: str | None, clients: int, say: Callable[[str], None]
) -> Iterator[DemoDatabase]:
    """Start a PostgreSQL (None), or use a running one; remove what is the demo's at the end.

    Raises MissingExtra, ConnectionFailed; RunFailed or SchemaRefused if the demo cannot run there.
    """
    pgbench = "" if dsn is None else find_pgbench()
    with (
        database.embedded_database(CONTENTS, clients, say)
        if dsn is None
        else database.existing_database(dsn, CONTENTS, say)
    ) as opened:
        if opened.programs is not None:
            pgbench = str(opened.programs / "pgbench")
        yield DemoDatabase(opened.dsn, opened.logs, opened.programs, pgbench)


def find_pgbench() -> str:
    """Return the path of the wheel's pgbench, or else of the one on PATH."""
    try:
        return str(wheel_programs() / "pgbench")
    except MissingExtra:
        found = shutil.which("pgbench")
    if found is None:
        raise RunFailed('pgbench is needed: pip install "pgqpy[embedded]", or put it on PATH')
    return found


SCALE = 10  # 100,000 accounts, 10 tellers and a branch each
INIT_TIMEOUT = 120  # seconds
OVERTIME = 60  # seconds that pgbench may run longer than requested
TRANSACTIONS = re.compile(r"^number of transactions actually processed: (\d+)", re.MULTILINE)


def make_tables(database: DemoDatabase) -> None:
    """Make and fill pgbench's tables in the demo's schema."""
    command = [database.pgbench, "--initialize", f"--scale={SCALE}", "--quiet"]
    with database.start("pgbench", command) as child:
        if child.wait(INIT_TIMEOUT):
            raise RunFailed(f"pgbench could not make its tables:\n{child.output().strip()}")


@contextmanager
def workload(database: DemoDatabase, *, seconds: int, clients: int) -> Iterator[Child]:
    """Start pgbench for `seconds`; kill it at the end of the block if it still runs."""
    with as_file(files("pgqpy.demo") / "workload.sql") as script:
        command = [
            database.pgbench,
            "--no-vacuum",
            "--protocol=prepared",
            f"--file={script}",
            f"--client={clients}",
            f"--jobs={min(clients, os.cpu_count() or 1)}",
            f"--time={seconds}",
            f"--define=scale={SCALE}",
        ]
        with database.start("workload", command) as child:
            yield child


def transactions(child: Child) -> int:
    """Wait for the end of a workload; return how many transactions it committed.

    Raises RunFailed if pgbench fails or hangs.
    """
    code = child.wait(OVERTIME)
    found = TRANSACTIONS.search(child.output())
    if code or not found:
        raise RunFailed(f"pgbench failed ({code}):\n{child.output().strip()}")
    return int(found[1])
