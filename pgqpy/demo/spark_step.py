"""The demo's last step, if Spark is available: write all events as parquet and sum them up."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from pgqpy.demo.balances import QUEUE
from pgqpy.demo.connection import environment
from pgqpy.demo.processes import Child, running

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pgqpy.demo.database import DemoDatabase
    from pgqpy.demo.view import View

LAKE = "lake"  # the name of the pipeline's consumer and of its folder
TIMEOUT = 90  # seconds; starting Java takes ten of them
PIPELINE = [sys.executable, "-m", "pgqpy", "pipeline", "run", "--once", "--queue", QUEUE]
SCHEMA = "account INT, branch INT, delta INT"


class BranchSum(NamedTuple):
    """The number of a branch's events and the sum of their amounts."""

    events: int
    delta: int


class Spark(NamedTuple):
    """What the demo needs of Spark. The caller makes it: the demo may not import pgqpy.spark."""

    missing: str  # how to install what is missing; empty if nothing is
    branch_sums: Callable[[str], Mapping[int, tuple[int, int]]]  # by the path of a parquet folder


def write_parquet(
    database: DemoDatabase, view: View, spark: Spark
) -> Mapping[int, BranchSum] | None:
    """Run a pipeline that writes all events; return sums by branch, None without Spark."""
    if spark.missing:
        view.say(f"the Spark step is skipped: {spark.missing}")
        return None
    view.say("Spark starts, and reads the same events into parquet")
    with TemporaryDirectory(prefix="pgqpy-lake-") as folder:
        lake = Path(folder) / LAKE
        command = [*PIPELINE, "--consumer", LAKE, "--to", str(lake), "--schema", SCHEMA]
        mine = {**environment(database.dsn), "SPARK_LOCAL_DIRS": folder}
        began = time.monotonic()
        _run(Child("pipeline", command, mine, database.logs))
        view.say(f"Spark has ended after {time.monotonic() - began:.1f} s, all told")
        found = spark.branch_sums(str(lake))
        return {branch: BranchSum(*sums) for branch, sums in found.items()}


def _run(child: Child) -> None:
    """Wait for the pipeline's end. SIGTERM comes before SIGKILL: it has child processes to stop."""
    with running(child):
        try:
            code = child.wait(TIMEOUT)
        finally:
            child.stop()
    if code:
        raise child.failure(f"ended with exit code {code}")
