"""Running python_pgq.py in Debian's Python."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from benchmarks.figures import Wrong
from benchmarks.server import DEBIAN_PYTHON

ROOT = Path(__file__).parents[2]
TIMEOUT = 600  # seconds


def python_pgq(what: str, dsn: str, count: int, more: object) -> float:
    """Run python_pgq.py; return the seconds that it measured."""
    command = [str(DEBIAN_PYTHON), "-W", "ignore", "-m", "benchmarks.peers.python_pgq"]
    environment = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONHOME")}
    done = subprocess.run(
        [*command, what, dsn, str(count), str(more)],
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        cwd=ROOT,
        env={**environment, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    if done.returncode:
        raise Wrong(f"python-pgq failed:\n{done.stderr}")
    return float(done.stdout)
