"""Write every event by a pipeline, into files and into tables: what the commit costs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pgqpy
from benchmarks.figures import verify
from benchmarks.spark.database import QUEUE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FOUND = re.compile(r"events ([\d,]+)  bad 0  events/s ([\d,]+)")


def contestants(
    dsn: str, count: int, formats: Sequence[str], folder: str
) -> dict[str, Callable[[], float]]:
    """Return the functions that write all events with a new pipeline."""
    return {name: partial(rate, dsn, count, name, Path(folder, name)) for name in formats}


def rate(dsn: str, count: int, table_format: str, folder: Path) -> float:
    """Write all events; return events a second of the micro-batch, as the pipeline says them."""
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "pgqpy", "pipeline", "run", "--once"]
    where = ["--queue", QUEUE, "--consumer", f"to_{table_format}", "--master", "local[2]"]
    what = ["--format", table_format, "--to", str(folder), "--starting-offsets", "earliest"]
    run = [*command, *where, *what, "--max-events", str(10 * count)]
    environment = {**os.environ, "PGQPY_DSN": dsn}  # it has a password
    ended = subprocess.run(run, capture_output=True, text=True, check=True, env=environment)
    found = FOUND.search(ended.stderr)
    events = [found and int(found[1].replace(",", ""))]
    verify(f"pipeline into {table_format}: events of its micro-batch", events, [count])
    unregister(dsn, f"to_{table_format}")
    return int(found[2].replace(",", "")) if found else 0.0


def unregister(dsn: str, consumer: str) -> None:
    """Let the next round begin at the first tick."""
    with pgqpy.connect(dsn) as client:
        client.unregister_consumer(QUEUE, consumer)
