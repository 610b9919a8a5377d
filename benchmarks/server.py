"""The PostgreSQL of a run: Debian's with the extension pgq, or an embedded one for a smoke."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pgqpy.testing import embedded_server

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pgqpy.testing import EmbeddedServer

POSTGRESQL = Path("/usr/lib/postgresql")
EXTENSIONS = Path("/usr/share/postgresql")
DEBIAN_PYTHON = Path("/usr/bin/python3")
PYTHON_PGQ = Path("/usr/lib/python3/dist-packages/pgq/consumer.py")
SETTINGS: Mapping[str, str | int] = {
    "fsync": "on",
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "15min",
    "max_connections": 200,
    "max_locks_per_transaction": 256,  # 1,000 queues in one transaction of 8 sessions
    "autovacuum": "on",
}
SMALL: Mapping[str, str | int] = {**SETTINGS, "shared_buffers": "128MB", "max_wal_size": "1GB"}


class CannotRun(Exception):
    """The machine lacks what a run needs; the text says what to do."""


@dataclass(frozen=True)
class Server:
    """A server that runs; `peers` says whether the extension pgq can be created in it."""

    cluster: EmbeddedServer
    peers: bool

    @property
    def programs(self) -> Path:
        """The folder of pgbench, psql and the others."""
        return self.cluster.bin_dir

    def dsn(self, database: str = "postgres") -> str:
        """Return the connection string of a database, as superuser by Unix socket."""
        return self.cluster.dsn(database)

    def tcp_dsn(self, database: str = "postgres") -> str:
        """Return the connection string of a database by TCP, for peers that need it."""
        return self.cluster.tcp_dsn(database)


@contextmanager
def running_server(*, smoke: bool, embedded: bool = False) -> Iterator[Server]:
    """Run the server for as long as the block lasts, on the disk of TMPDIR.

    `smoke` takes the embedded server if Debian's is missing; `embedded` always takes it.

    Raises CannotRun if Debian's is not there and cannot be installed.
    """
    programs = None if embedded else debian_programs()
    if programs is None and not smoke:
        install_debian()
        programs = debian_programs()
    settings = SMALL if smoke else SETTINGS
    with embedded_server(settings=settings, bin_dir=programs, tcp=True) as cluster:
        yield Server(cluster, peers=programs is not None)


def debian_programs() -> Path | None:
    """Return the programs of the newest PostgreSQL that has the extension pgq; None if none has."""
    found = [
        int(control.parts[-3])
        for control in EXTENSIONS.glob("*/extension/pgq.control")
        if (POSTGRESQL / control.parts[-3] / "bin" / "pgbench").exists() and PYTHON_PGQ.exists()
    ]
    return POSTGRESQL / str(max(found)) / "bin" if found else None


def install_debian() -> None:
    """Install Debian's packages of PGQ.

    Raises CannotRun if the caller is not root, or the system has no apt-get.
    """
    packages = _packages()
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
    if os.geteuid() != 0:
        raise CannotRun(f"PGQ in C is needed to compare with: sudo {' '.join(command)}")
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode or debian_programs() is None:
        raise CannotRun(f"PGQ in C is needed, and {' '.join(command)} failed:\n{done.stderr}")


def _packages() -> list[str]:
    if not shutil.which("apt-get"):
        raise CannotRun(
            "PGQ in C is needed to compare with, from Debian's packages postgresql-15-pgq3 and "
            "python3-pgq: run this on Debian or Ubuntu, or --smoke on any system"
        )
    names = subprocess.run(
        ["apt-cache", "pkgnames", "postgresql-"], check=True, capture_output=True, text=True
    ).stdout
    versions = [
        int(number) for number in re.findall(r"^postgresql-(\d+)-pgq3$", names, re.MULTILINE)
    ]
    if not versions:
        raise CannotRun("apt knows no package postgresql-…-pgq3: run apt-get update first")
    version = max(versions)
    return [f"postgresql-{version}", f"postgresql-{version}-pgq3", "pgqd", "python3-pgq"]
