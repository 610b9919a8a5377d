"""The machine, the versions and the settings that figures depend on."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import psycopg

from benchmarks.peers import FROM_PYPI
from benchmarks.server import DEBIAN_PYTHON, SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.server import Server

GIGABYTE = 1024**3
DEBIAN_PACKAGES = ("postgresql-15-pgq3", "python3-pgq", "python3-psycopg2")


def describe(server: Server) -> dict[str, str]:
    """Return names and values."""
    with psycopg.connect(server.dsn()) as connection:
        postgresql = str(connection.execute("select version()").fetchone())
        settings = [
            f"{name}={connection.execute('select current_setting(%s)', (name,)).fetchone()[0]}"  # type: ignore[index]  # one row
            for name in SETTINGS
        ]
    return {
        "machine": f"{os.cpu_count()} cores ({_cpu()}), {_memory():.0f} GB, {platform.system()}",
        "PostgreSQL": " ".join(re.findall(r"[\w.]+", postgresql)[:2]),
        "settings": ", ".join(settings) + ", synchronous_commit as the column says",
        "Python": platform.python_version(),
        "packages": ", ".join([*_pypi(), *_debian(server)]),
    }


def commit() -> str:
    """Return the commit of the working tree, with a + if files of it are changed."""
    found = _output("git", "describe", "--always", "--exclude=*", "--dirty=+")
    return found or "unknown"


def _cpu() -> str:
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1] if found else platform.machine()


def _memory() -> float:
    return float(psutil.virtual_memory().total) / GIGABYTE


def _pypi() -> Iterator[str]:
    for name in ("pgqpy", "psycopg", *FROM_PYPI):
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            yield f"{name} missing"


def _debian(server: Server) -> Iterator[str]:
    if server.peers:
        yield _output(str(DEBIAN_PYTHON), "--version").replace("Python", "Debian's Python")
        for name in DEBIAN_PACKAGES:
            yield f"{name} {_output('dpkg-query', '--show', '--showformat=${Version}', name)}"


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()
