"""Debian's packages for PGQ in C: its ticker pgqd, its consumer framework python3-pgq."""

from __future__ import annotations

import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from benchmarks.load.children import Child, child

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PGQD = Path("/usr/bin/pgqd")
PYTHON = "/usr/bin/python3"
ARRIVE = Path(__file__).with_name("arrive_pgq.py")


def has_pgqd() -> bool:
    """Say whether PGQ's ticker is installed (Debian's package pgqd)."""
    return PGQD.exists()


@contextmanager
def pgqd(dsn: str, **settings: float) -> Iterator[None]:
    """Run PGQ's ticker on one database; `settings` (seconds) override its defaults."""
    known = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    database = known.pop("dbname")
    with tempfile.TemporaryDirectory(prefix="pgqd-") as folder:
        lines = {
            "logfile": f"{folder}/log",
            "pidfile": f"{folder}/pid",
            "base_connstr": make_conninfo(**known),
            "initial_database": database,
            "database_list": database,
            **settings,
        }
        with _program([str(PGQD), "-q", _write(folder, "pgqd", lines)]):
            yield


@contextmanager
def consumer(dsn: str, queue: str, name: str) -> Iterator[Child]:
    """Run a consumer of python3-pgq with its default settings; it answers like `arrive`."""
    with tempfile.TemporaryDirectory(prefix="python-pgq-") as folder:
        lines = {"job_name": name, "db": dsn, "queue_name": queue, "consumer_name": name}
        with child(PYTHON, str(ARRIVE), "-q", _write(folder, "noting", lines)) as arrivals:
            yield arrivals


def _write(folder: str, section: str, lines: Mapping[str, object]) -> str:
    file = Path(folder) / f"{section}.ini"
    text = "".join(f"{name} = {value}\n" for name, value in lines.items())
    file.write_text(f"[{section}]\n{text}")
    return str(file)


@contextmanager
def _program(command: list[str]) -> Iterator[None]:
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()
