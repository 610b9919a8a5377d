"""The demo's last step, if Spark is available: write all events as parquet and sum them up."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pgqpy.demo.balances import QUEUE
from pgqpy.own_process import own_process

if TYPE_CHECKING:
    from pgqpy.demo.database import DemoDatabase
    from pgqpy.sandbox.processes import Child
    from pgqpy.sandbox.view import View

LAKE = "lake"  # the name of the pipeline's consumer and of its folder
TIMEOUT = 240  # seconds; it takes 20 of them, and 60 on a busy machine
PIPELINE = own_process("pgqpy", "pipeline", "run", "--once", "--queue", QUEUE)
SCHEMA = "account INT, branch INT, delta INT"

BranchSums = dict[int, tuple[int, int]]  # by branch: the number of events, the sum of their amounts


def write_parquet(database: DemoDatabase, view: View) -> BranchSums:
    """Run a pipeline that writes all events; return what the files contain, by branch."""
    view.say("Spark starts, and reads the same events into parquet")
    with TemporaryDirectory(prefix="pgqpy-lake-") as folder:
        lake = Path(folder) / LAKE
        command = [*PIPELINE, "--consumer", LAKE, "--to", str(lake), "--schema", SCHEMA]
        began = time.monotonic()
        _run(database.start("pipeline", command, SPARK_LOCAL_DIRS=folder, TMPDIR=folder))
        view.say(f"Spark has ended after {time.monotonic() - began:.1f} s, all told")
        return _branch_sums(lake)


def _run(child: Child) -> None:
    """Wait for the pipeline's end. SIGTERM comes before SIGKILL: it has child processes to stop."""
    with child:
        try:
            code = child.wait(TIMEOUT)
        finally:
            child.stop()
    if code:
        raise child.failure(f"ended with exit code {code}")


def _branch_sums(lake: Path) -> BranchSums:
    """Read the parquet files without Spark."""
    import pyarrow.dataset as ds  # noqa: PLC0415  # installed with Spark

    transfers = ds.dataset(lake, format="parquet", partitioning="hive").to_table(
        ["branch", "delta"]
    )
    sums = transfers.group_by("branch").aggregate([("delta", "count"), ("delta", "sum")])
    return {row["branch"]: (row["delta_count"], row["delta_sum"]) for row in sums.to_pylist()}
