"""``pgqpy top``: once, as JSON, and in a terminal; tests/top has what the terminal shows."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest

import pgqpy
from pgqpy.cli import overviews as top
from tests.cli.support import Connection, Run, RunJson, failed_with
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

MAIN_SCREEN = "\x1b[?1049l"  # a terminal goes back to what was shown before


@pytest.fixture
def _queues(client: pgqpy.Client, connection: Connection) -> None:
    for queue in ("[red]a", "b"):
        client.create_queue(queue)
        client.register_consumer(queue, "billing")
    client.insert_events("b", [("placed", "data")] * 3)
    client.tick_queue("b")
    connection.execute("update pgq.tick set tick_time = tick_time - interval '1 hour'")


@pytest.mark.usefixtures("_queues")
def test_in_a_pipe_it_prints_the_overview_once(run: Run) -> None:
    result = run("top")
    lines = result.stdout.splitlines()
    assert (result.exit_code, result.stderr) == (0, "")
    assert "2 queue(s)  2 consumer(s)" in lines[0]
    found = lines.index("     -> pgqpy ticker run")
    assert lines[found - 1].startswith("FAIL ticker: no ticker is running")
    heading, first, second = lines[lines.index("") + 1 :]
    assert heading.split()[:3] == ["queue", "events/s", "lag"]
    assert first.split()[0] == "b"
    assert "1 h" in first
    assert second.split()[0] == "[red]a"
    assert run("top", "--once", "--sort", "name").stdout.splitlines()[-1].split()[0] == "b"


@pytest.mark.usefixtures("_queues")
def test_json_has_all_that_is_known(run_json: RunJson) -> None:
    found = run_json("top")
    first, second = found["queues"]
    assert (first["name"], first["pending_events"], first["dead_events"]) == ("b", 3, 0)
    assert (first["worst_consumer"], second["name"]) == ("billing", "[red]a")
    assert 3600 <= first["worst_lag"] < 3700
    assert [each["name"] for each in found["consumers"]] == ["billing", "billing"]
    assert {"level", "check", "what", "remedy"} == set(found["problems"][0])
    assert found["tickers"] == []


def test_a_database_that_does_not_answer_is_one_line(bare_run: Run) -> None:
    nowhere = "host=/nonexistent password=secret"
    assert failed_with(bare_run("top", "--dsn", nowhere), 1, "cannot connect", "/nonexistent")
    assert "secret" not in bare_run("top", "--dsn", nowhere).output
    assert failed_with(bare_run("top", "--dsn", "postgresql+x://"), 2, "SQLAlchemy")


def test_without_the_extra_one_line_says_what_to_install(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(top, "_has_screen", lambda: True)
    for name in [each for each in sys.modules if each.partition(".")[0] == "textual"]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("app", "details", "live_screen", "overview", "table"):
        monkeypatch.delitem(sys.modules, f"pgqpy.top.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "textual", None)
    assert failed_with(run("top"), 1, 'textual is needed: pip install "pgqpy[top]"', "--once")
    assert run("top", "--once").exit_code == 0


class Terminal(NamedTuple):
    """A program in a terminal of 80 columns and 24 lines."""

    process: subprocess.Popen[bytes]
    master: int
    output: bytearray

    def shows(self, text: str) -> bool:
        """Read what is there, and say whether the text was in it."""
        while select.select([self.master], [], [], 0)[0]:
            try:
                self.output.extend(os.read(self.master, 65536))
            except OSError:  # the program has ended
                break
        return text.encode() in self.output


@contextmanager
def in_terminal(dsn: str, *args: str) -> Iterator[Terminal]:
    master, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**os.environ, "PGQPY_DSN": dsn, "TERM": "xterm", "NO_COLOR": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "pgqpy", *args],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment,
        start_new_session=True,
    )
    os.close(terminal)
    try:
        yield Terminal(process, master, bytearray())
    finally:
        process.kill()
        process.wait()
        os.close(master)


@pytest.mark.usefixtures("_queues")
@pytest.mark.parametrize("how", ["q", "SIGTERM"])
def test_a_terminal_is_left_as_it_was(dsn: str, how: str) -> None:
    with in_terminal(dsn, "top") as terminal:
        assert eventually(lambda: terminal.shows("[red]a"))
        if how == "SIGTERM":
            terminal.process.send_signal(signal.SIGTERM)
        else:
            os.write(terminal.master, how.encode())
        assert eventually(
            lambda: terminal.shows(MAIN_SCREEN) and terminal.process.poll() is not None
        )
        assert terminal.process.returncode == 0
        assert b"\x1b[38;" not in terminal.output  # colours
