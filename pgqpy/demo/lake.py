"""The demo's last act, where Spark is there: the same events into parquet, summed up by branch."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from pgqpy.demo.balances import QUEUE
from pgqpy.demo.children import Child, running
from pgqpy.demo.connection import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pgqpy.demo.place import Place
    from pgqpy.demo.view import View

LAKE = "lake"  # the pipeline's consumer
TIMEOUT = 90  # seconds; Java alone takes ten of them to start
PIPELINE = [sys.executable, "-m", "pgqpy", "pipeline", "run", "--once", "--queue", QUEUE]
SCHEMA = "account INT, branch INT, delta INT"


class Sum(NamedTuple):
    """What the lake holds of one branch."""

    events: int
    delta: int


class Spark(NamedTuple):
    """What the demo needs of Spark, given by who may import it."""

    missing: str  # how to get what is missing; empty if all is there
    branch_sums: Callable[[str], Mapping[int, tuple[int, int]]]  # reads a folder of parquet


def fill_lake(place: Place, view: View, spark: Spark) -> Mapping[int, Sum] | None:
    """Let a pipeline write all events as parquet and return their sums; None without Spark."""
    if spark.missing:
        view.say(f"Spark's act is left out: {spark.missing}")
        return None
    view.say("Spark starts, and reads the same events into parquet")
    with TemporaryDirectory(prefix="pgqpy-lake-") as folder:
        lake = Path(folder) / LAKE
        command = [*PIPELINE, "--consumer", LAKE, "--to", str(lake), "--schema", SCHEMA]
        mine = {**environment(place.dsn), "SPARK_LOCAL_DIRS": folder}
        began = time.monotonic()
        _run(Child("pipeline", command, mine, place.logs))
        view.say(f"Spark has ended after {time.monotonic() - began:.1f} s, all told")
        found = spark.branch_sums(str(lake))
        return {branch: Sum(*sums) for branch, sums in found.items()}


def _run(child: Child) -> None:
    """Wait for its end. It is asked to stop before it is killed: it has processes of its own."""
    with running(child):
        try:
            code = child.wait(TIMEOUT)
        finally:
            child.stop()
    if code:
        raise child.failure(f"ended with exit code {code}")
