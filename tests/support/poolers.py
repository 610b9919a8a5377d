"""PgBouncer in front of a test's database."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

PGBOUNCER = shutil.which("pgbouncer")
WHY_SKIPPED = "Debian's package pgbouncer is not installed"
PORT = 6432  # part of a socket's name in a folder of its own


@contextmanager
def pgbouncer(dsn: str, mode: str, **settings: str | int) -> Iterator[str]:
    """Run PgBouncer in this pool mode for one database; yield the DSN that goes through it."""
    named = conninfo_to_dict(dsn)
    server = " ".join(
        f"{key}='{value}'"
        for key, value in named.items()
        if key in ("host", "port", "user", "password", "dbname")
    )
    with tempfile.TemporaryDirectory(prefix="pgqpy-pool-") as folder:
        lines = {
            "listen_addr": "",
            "unix_socket_dir": folder,
            "listen_port": PORT,
            "auth_type": "any",
            "pool_mode": mode,
            "default_pool_size": 8,
            "query_wait_timeout": 20,  # seconds
            **settings,
        }
        file = Path(folder, "pgbouncer.ini")
        database = f"[databases]\n{named['dbname']} = {server}\n[pgbouncer]\n"
        file.write_text(database + "".join(f"{key} = {value}\n" for key, value in lines.items()))
        command = [PGBOUNCER or "pgbouncer", "--quiet", str(file)]
        if os.getuid() == 0:
            user = _user_of(str(named.get("host", "")))
            shutil.chown(folder, user)
            shutil.chown(file, user)
            command += ["--user", user]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        pooled = make_conninfo(host=folder, port=PORT, dbname=named["dbname"], user=named["user"])
        try:
            eventually(lambda: _answers(pooled))
            yield pooled
        finally:
            process.terminate()
            process.wait()


def _user_of(host: str) -> str:
    """Return the user that PgBouncer, which does not run as root, reaches the server as."""
    return Path(host).owner() if host.startswith("/") else "nobody"


def _answers(dsn: str) -> bool:
    try:
        psycopg.connect(dsn).close()
    except psycopg.OperationalError:
        return False
    return True
