"""pgbench, PostgreSQL's benchmark: make its tables, run the workload, read its summary."""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

from pgqpy.demo.abort import DemoFailed
from pgqpy.demo.connection import environment
from pgqpy.demo.processes import Child, running

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

    from pgqpy.demo.database import DemoDatabase

SCALE = 10  # 100,000 accounts, 10 tellers and a branch each
INIT_TIMEOUT = 120  # seconds
OVERTIME = 60  # seconds that pgbench may run longer than requested
TRANSACTIONS = re.compile(r"^number of transactions actually processed: (\d+)", re.MULTILINE)


def make_tables(database: DemoDatabase) -> None:
    """Make and fill pgbench's tables in the demo's schema."""
    command = [database.program("pgbench"), "--initialize", f"--scale={SCALE}", "--quiet"]
    with running(Child("pgbench", command, environment(database.dsn), database.logs)) as child:
        if child.wait(INIT_TIMEOUT):
            raise DemoFailed(f"pgbench could not make its tables:\n{child.output().strip()}")


class Workload:
    """A pgbench run, as a context manager: the process ends with the block."""

    def __init__(self, database: DemoDatabase, *, seconds: float, clients: int) -> None:
        """Take the duration (a second at least) and the number of clients; start nothing yet."""
        self._database = database
        self._seconds = round(seconds)
        self._clients = clients
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Start pgbench."""
        script = self._stack.enter_context(as_file(files("pgqpy.demo") / "workload.sql"))
        database = self._database
        child = Child("workload", self._command(script), environment(database.dsn), database.logs)
        self._child = self._stack.enter_context(running(child))
        return self

    def __exit__(self, *_: object) -> None:
        """Kill pgbench if it still runs."""
        self._stack.close()

    @property
    def running(self) -> bool:
        """Whether pgbench still runs."""
        return self._child.running

    def transactions(self) -> int:
        """Wait for the end of pgbench; return how many transactions it committed.

        Raises DemoFailed if pgbench fails or hangs.
        """
        code = self._child.wait(OVERTIME)
        found = TRANSACTIONS.search(self._child.output())
        if code or not found:
            raise DemoFailed(f"pgbench failed ({code}):\n{self._child.output().strip()}")
        return int(found[1])

    def _command(self, script: Path) -> list[str]:
        threads = min(self._clients, os.cpu_count() or 1)
        return [
            self._database.program("pgbench"),
            "--no-vacuum",
            "--protocol=prepared",
            f"--file={script}",
            f"--client={self._clients}",
            f"--jobs={threads}",
            f"--time={self._seconds}",
            f"--define=scale={SCALE}",
        ]
