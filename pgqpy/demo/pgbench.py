"""pgbench, PostgreSQL's benchmark: make its tables, run the workload, read its summary."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

from pgqpy.sandbox.abort import RunFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgqpy.demo.database import DemoDatabase
    from pgqpy.sandbox.processes import Child

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
