"""The server of `make postgres`: it says where it is, and leaves nothing behind."""

from __future__ import annotations

import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.processes import PythonProcess

ROOT = Path(__file__).parents[2]


def test_the_line_to_export_leads_to_a_server_that_ends_with_ctrl_c(
    spawn: Callable[..., PythonProcess],
) -> None:
    process = spawn(str(ROOT / "tools/postgres.py"))
    command, assignment = shlex.split(process.wait_for_output("\n"))
    name, dsn = assignment.split("=", 1)
    assert (command, name) == ("export", "PGQPY_DSN")
    with psycopg.connect(dsn) as connection:
        tables = connection.execute("select count(*) from pg_stat_user_tables").fetchone()
        assert tables == (0,)
    directory = Path(str(conninfo_to_dict(dsn)["host"])).parent
    postmaster = int((directory / "data/postmaster.pid").read_text().split()[0])
    assert psutil.pid_exists(postmaster)
    process.signal(signal.SIGINT)
    assert process.popen.wait(timeout=30) == 0
    assert not directory.exists()
    eventually(lambda: not psutil.pid_exists(postmaster))
