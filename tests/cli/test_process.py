"""The command line as a process: signals, pipes, speed, secrets."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import pgqpy
from tests.cli.support import Connect, Run, Spawn
from tests.support.fork_server import ForkedProcess
from tests.support.gates import wait_until_blocked
from tests.support.waiting import eventually

DAEMON = ("pydantic", "apscheduler", "prometheus_client")
HEAVY = (*DAEMON, "rich", "structlog", "tenacity")


def test_ctrl_c_while_it_reads_loads_nothing(
    spawn: Spawn, dsn: str, client: pgqpy.Client, tmp_path: Path
) -> None:
    client.create_queue("orders")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    load = ("event", "insert", "orders", "--file", str(pipe))
    process = spawn("-m", "pgqpy", *load, env={"PGQPY_DSN": dsn})
    with pipe.open("w") as writer:
        writer.write('{"type": "a", "data": "b"}\n' * 10_000)
        writer.flush()
        eventually(lambda: sessions(client))
        process.signal(signal.SIGINT)
        assert process.wait() == 130
    assert process.output().strip() == "interrupted"
    eventually(lambda: sessions(client) == [])
    assert client.connection.execute("select from pgq.event_template").fetchall() == []


def test_ctrl_c_while_it_waits_for_a_lock_does_nothing(
    spawn: Spawn, dsn: str, client: pgqpy.Client, connect: Connect
) -> None:
    client.create_queue("orders")
    holder = connect(autocommit=False)
    holder.execute("select from pgq.queue for update")
    process = spawn("-m", "pgqpy", "queue", "drop", "orders", env={"PGQPY_DSN": dsn})
    (pid,) = eventually(lambda: sessions(client))
    wait_until_blocked(client.connection, pid)
    process.signal(signal.SIGINT)
    assert process.wait() == 130
    assert process.output().strip() == "interrupted"
    holder.rollback()
    eventually(lambda: sessions(client) == [])
    assert [info.queue_name for info in client.get_queue_info()] == ["orders"]


def sessions(client: pgqpy.Client) -> list[int]:
    """Return the process ids of the command's sessions."""
    return [pid for (pid,) in client.connection.execute(OTHERS)]


OTHERS = """
    select pid from pg_stat_activity where pid <> pg_backend_pid()
        and application_name = 'pgqpy' and datname = current_database()
"""


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = [sys.executable, "-m", "pgqpy", "schema", "print"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize(
    ("stream", "args"),
    [(0, ["event", "insert", "orders", "t", "-"]), (1, ["queue", "list"]), (2, ["queue", "list"])],
)
def test_a_stream_that_the_shell_closed_is_no_error(
    dsn: str, client: pgqpy.Client, args: list[str], stream: int
) -> None:
    client.create_queue("orders")
    command = f'exec "$@" {stream}>&-'
    done = subprocess.run(
        ["/bin/sh", "-c", command, "sh", sys.executable, "-m", "pgqpy", *args],
        env={**os.environ, "PGQPY_DSN": dsn},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_terminal_that_lacks_letters_gets_them_escaped(
    dsn: str, client: pgqpy.Client, options: list[str]
) -> None:
    client.create_queue("hüte € 🎩")
    listed = subprocess.run(
        [sys.executable, "-m", "pgqpy", "queue", "list", *options],
        env={**os.environ, "PGQPY_DSN": dsn, "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"},
        capture_output=True,
        check=True,
    ).stdout.decode("latin-1")
    if options:
        assert json.loads(listed)[0]["queue_name"] == "hüte € 🎩"
    else:
        assert "\\u20ac" in listed


def test_the_traceback_is_shown_when_asked_for_but_no_password(bare_run: Run) -> None:
    command = ["--dsn", "host=/nowhere password=hunter2-hunter2", "queue", "list"]
    quiet = bare_run(*command)
    loud = bare_run(*command, env={"PGQPY_DEBUG": "1"})
    assert (quiet.exit_code, loud.exit_code) == (1, 1)
    assert "Traceback" not in quiet.stderr
    assert "Traceback" in loud.stderr
    assert "hunter2" not in quiet.stderr + loud.stderr


def test_a_session_that_is_ended_by_the_server_is_one_line(
    spawn: Spawn, dsn: str, client: pgqpy.Client, connect: Connect
) -> None:
    client.create_queue("orders")
    holder = connect(autocommit=False)
    holder.execute("select from pgq.queue for update")
    process = spawn("-m", "pgqpy", "queue", "drop", "orders", env={"PGQPY_DSN": dsn})
    (pid,) = eventually(lambda: sessions(client))
    client.connection.execute("select pg_terminate_backend(%s)", [pid])
    assert process.wait() == 1
    assert len(process.output().splitlines()) == 1
    assert process.output().startswith("error: ")


def test_help_imports_nothing_heavy_and_a_consumer_nothing_of_the_daemon() -> None:
    code = f"""if True:
        import sys
        from pgqpy.cli.app import app
        for args in (["--help"], ["--version"], ["queue", "list", "--help"]):
            try: app(args)
            except SystemExit as end: assert end.code == 0
        print([name for name in {HEAVY} if name in sys.modules])
        from pgqpy.cli import consumer_run
        print([name for name in {DAEMON} if name in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-2:] == ["[]", "[]"]


@pytest.mark.parametrize(("number", "before"), [(signal.SIGTERM, True), (signal.SIGINT, False)])
def test_ticker_runs_until_a_signal(
    spawn: Spawn, dsn: str, run: Run, client: pgqpy.Client, number: signal.Signals, before: bool
) -> None:
    client.create_queue("orders")
    option = ["--dsn", dsn]
    command = [*option, "ticker", "run"] if before else ["ticker", "run", *option]
    process = spawn("-m", "pgqpy", *command)
    client.insert_event("orders", "type", "data")
    eventually(lambda: client.get_queue_info("orders")[0].ev_new == 0)
    assert "a ticker runs" in run("doctor").stdout
    process.signal(number)
    assert process.wait() == 0


def on_terminal(args: list[str], dsn: str) -> str:
    """Run a command whose standard output is a terminal of 80 columns; return what it shows."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "PGQPY_DSN": dsn, "COLUMNS": "80", "NO_COLOR": "1"}
    command = [sys.executable, "-u", "-m", "pgqpy", *args]
    with ForkedProcess(command, stdout=theirs, env=env):
        os.close(theirs)
        shown = b""
        with suppress(OSError), os.fdopen(ours, "rb", buffering=0) as terminal:  # EIO ends it
            while part := terminal.read(4096):
                shown += part
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())


def test_a_terminal_gets_tables(dsn: str, client: pgqpy.Client) -> None:
    client.create_queue("orders")
    listed = on_terminal(["queue", "list"], dsn)
    assert "│ orders" in listed
    shown = on_terminal(["queue", "show", "orders"], dsn)
    assert "│ queue_ntables" in shown
    ill = on_terminal(["doctor"], dsn)
    assert "│ fail " in ill
    assert "-> pgqpy ticker run" in ill
    for text in (listed, shown, ill):
        assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("command", "queue", "shown_too"),
    [("consumer list", "q" * 50, "c" * 50), ("doctor", "q" * 59, "-> pgqpy ticker run")],
)
def test_a_terminal_shows_names_in_full(
    dsn: str, client: pgqpy.Client, command: str, queue: str, shown_too: str
) -> None:
    client.create_queue(queue)
    client.register_consumer(queue, "c" * min(len(queue), 50))
    shown = on_terminal(command.split(), dsn)
    assert any(queue in line and shown_too in line for line in shown.splitlines())
    assert "\\n" not in shown


def test_completion_is_clicks_own() -> None:
    asked = {"_PGQPY_COMPLETE": "bash_complete", "COMP_WORDS": "pgqpy que", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pgqpy"],
        env={**os.environ, "_PYTHON_M_PGQPY_COMPLETE": "", **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "plain,queue\n"
