"""PostgreSQL's own pgbench: make its tables, run the workload, read its summary."""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

from pgqpy.demo.children import Child, running
from pgqpy.demo.connection import environment
from pgqpy.demo.errors import DemoFailed

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

    from pgqpy.demo.place import Place

SCALE = 10  # 100,000 accounts, 10 tellers and a branch each
INIT_TIMEOUT = 120  # seconds
OVERTIME = 60  # seconds that pgbench may take longer than it was told to
TRANSACTIONS = re.compile(r"^number of transactions actually processed: (\d+)", re.MULTILINE)


def make_tables(place: Place) -> None:
    """Make and fill pgbench's tables in the demo's schema."""
    command = [place.program("pgbench"), "--initialize", f"--scale={SCALE}", "--quiet"]
    with running(Child("pgbench", command, environment(place.dsn), place.logs)) as child:
        if child.wait(INIT_TIMEOUT):
            raise DemoFailed(f"pgbench could not make its tables:\n{child.output().strip()}")


class Workload:
    """A running pgbench. Use as a context manager: at the end it is gone."""

    def __init__(self, place: Place, *, seconds: float, clients: int) -> None:
        """Say how long (at least a second) and with how many clients; nothing runs yet."""
        self._place = place
        self._seconds = round(seconds)
        self._clients = clients
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Start pgbench."""
        script = self._stack.enter_context(as_file(files("pgqpy.demo") / "workload.sql"))
        place = self._place
        child = Child("workload", self._command(script), environment(place.dsn), place.logs)
        self._child = self._stack.enter_context(running(child))
        return self

    def __exit__(self, *_: object) -> None:
        """Kill pgbench if it still runs."""
        self._stack.close()

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        return self._child.running

    def transactions(self) -> int:
        """Wait for its end and return how many transactions it committed.

        Raises DemoFailed if pgbench failed, or hangs.
        """
        code = self._child.wait(OVERTIME)
        found = TRANSACTIONS.search(self._child.output())
        if code or not found:
            raise DemoFailed(f"pgbench failed ({code}):\n{self._child.output().strip()}")
        return int(found[1])

    def _command(self, script: Path) -> list[str]:
        threads = min(self._clients, os.cpu_count() or 1)
        return [
            self._place.program("pgbench"),
            "--no-vacuum",
            "--protocol=prepared",
            f"--file={script}",
            f"--client={self._clients}",
            f"--jobs={threads}",
            f"--time={self._seconds}",
            f"--define=scale={SCALE}",
        ]
