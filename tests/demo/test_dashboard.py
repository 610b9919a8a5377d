"""The dashboard beside the demo: it shows the demo live, and ends with it."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import psutil

from tests.demo.conftest import SHORT, SMALL, schemas
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.processes import PythonProcess

SESSIONS = "select count(*) from pg_stat_activity where datname = current_database()"
ERASE = "\x1b[2K"  # a line of the panel
TIMEOUT = 250  # seconds
URL = re.compile(r"demo: the dashboard: (http://127\.0\.0\.1:\d+/)\s")


def url_in(output: str) -> str:
    """Return the dashboard's URL that the demo has printed."""
    found = URL.search(output)
    assert found is not None, output
    return found[1]


def page(url: str) -> str:
    """Return a page as a browser gets it."""
    with urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


def ends(url: str) -> bool:
    """Say whether nothing listens there."""
    try:
        page(url)
    except OSError:
        return True
    return False


def test_in_a_pipe_it_shows_the_demo_while_it_runs_and_ends_with_it(
    demo: Any, place: Path, empty_dsn: str
) -> None:
    process = demo("--dashboard", "--seconds", "3", "--dsn", empty_dsn)
    process.wait_for_output("worker started", TIMEOUT)
    url = url_in(process.output())  # it comes before the first step
    children = psutil.Process(process.pid).children(recursive=True)
    assert "balances" in page(url + "queue?queue=pgqpy_demo")
    assert process.wait(TIMEOUT) == 0, process.output()
    output = process.output()
    assert output.rstrip().endswith("verdict: passed, every event was processed exactly once")
    assert "Ctrl-C" not in output
    assert ends(url)
    assert [child for child in children if child.is_running()] == []
    assert list(place.iterdir()) == []
    # The server of the user had no schema, and this machine has no Java.
    assert "the schema pgq was missing" in output
    assert schemas(empty_dsn) == set()
    (line,) = [line for line in output.splitlines() if "Spark" in line]
    assert line.startswith("demo: the Spark step is skipped: Java 17 or later is needed")
    assert "in parquet" not in output


def test_on_a_terminal_it_stays_until_ctrl_c_and_only_what_is_a_demos_goes(
    demo: Any, place: Path, dsn: str, client: Any
) -> None:
    client.create_queue("orders")
    killed = demo("--dsn", dsn)
    killed.wait_for_output("worker started")
    children = psutil.Process(killed.pid).children(recursive=True)
    killed.kill()
    eventually(lambda: not any(child.is_running() for child in children))
    assert schemas(dsn) == {"pgq", "pgq_coop", "pgqpy_demo"}
    left = list(place.iterdir())
    eventually(lambda: client.connection.execute(SESSIONS).fetchone() == (1,))
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TMPDIR": str(place), "JAVA_HOME": "/nowhere", "TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-c", SMALL, "demo", *SHORT, "--dashboard", "--dsn", dsn],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
    ) as process:
        os.close(theirs)
        shown = ""
        try:
            while "stays until Ctrl-C" not in shown:
                shown += os.read(ours, 4096).decode(errors="replace")
            assert "verdict: passed" in shown
            children = psutil.Process(process.pid).children(recursive=True)
            assert "pgqpy_demo" in page(url_in(shown))
            process.send_signal(signal.SIGINT)
            with suppress(OSError):  # the end of a terminal
                while block := os.read(ours, 4096):
                    shown += block.decode(errors="replace")
            assert process.wait(60) == 0, shown
        finally:
            process.kill()
            os.close(ours)
    assert ends(url_in(shown))
    assert shown.count("verdict: passed") == 1
    assert ERASE not in shown.partition("verdict: passed")[2]
    eventually(lambda: not any(child.is_running() for child in children))
    assert list(place.iterdir()) == left
    assert schemas(dsn) == {"pgq", "pgq_coop"}
    assert [info.queue_name for info in client.get_queue_info()] == ["orders"]


def test_without_the_extra_it_says_what_to_install(spawn: Callable[..., PythonProcess]) -> None:
    code = "from pgqpy.dashboard import mount; mount.NEEDED = ('no_such_package',)\n"
    process = spawn("-c", code + SMALL, "demo", "--dashboard")
    assert process.wait() == 1
    assert process.output() == "error: no_such_package is needed: pip install 'pgqpy[dashboard]'\n"
