"""`pgqpy simulate` as a process: on a server of its own, and on somebody else's."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.support.servers import memory
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.processes import PythonProcess

    Simulate = Callable[..., PythonProcess]

TIMEOUT = 110  # seconds
PASSED = "verdict: passed, every promise was kept"


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder for temporary files that the server's user can reach: pytest's own is private."""
    with tempfile.TemporaryDirectory(prefix="pgqpy-test-", dir=memory()) as folder:
        Path(folder).chmod(0o1777)
        yield Path(folder)


@pytest.fixture
def simulate(spawn: Callable[..., PythonProcess], place: Path) -> Simulate:
    """Start a simulation whose temporary files are in `place`."""

    def start(*options: str) -> PythonProcess:
        # The application's own database is not for a simulation, unless --dsn says so.
        env = {"TMPDIR": str(place), "PGQPY_DSN": "host=/nowhere"}
        if "--dsn" not in options:
            env |= {"PGHOSTADDR": "192.0.2.1", "PGPORT": "1", "PGSERVICE": "nowhere"}
        return spawn("-m", "pgqpy", "simulate", *options, env=env)

    return start


def test_every_promise_is_kept_while_a_worker_is_killed(simulate: Simulate, place: Path) -> None:
    log = place / "log"
    options = ["--fill", "150", "--kill-every", "300ms", "--work", "8ms-9ms", "--concurrency", "2"]
    process = simulate(*options, "--log", str(log))
    process.wait_for_output("worker(s) started")
    children = psutil.Process(process.pid).children(recursive=True)
    assert not any("host=" in word for child in children for word in child.cmdline())
    assert process.wait(TIMEOUT) == 0, process.output()
    assert process.output().rstrip().endswith(PASSED)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    wanted = {"insert", "commit", "rollback", "begin", "end", "kill"}
    assert wanted <= {line["do"] for line in lines}
    log.unlink()
    assert list(place.iterdir()) == []
    eventually(lambda: not any(child.is_running() for child in children))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--shared"], "no order per key is promised"),
        (["--concurrency", "3", "--park"], "ok    order per key"),
    ],
)
def test_processes_share_a_consumer_on_a_database_of_ones_own(
    simulate: Simulate, dsn: str, client: Any, options: list[str], said: str
) -> None:
    load = ["--rate", "100", "--seconds", "1", "--workers", "2", "--kill-every", "400ms"]
    process = simulate("--dsn", dsn, *load, *options)
    assert process.wait(TIMEOUT) == 0, process.output()
    assert PASSED in process.output()
    assert said in process.output()
    assert client.get_queue_info() == []


def test_with_keep_the_queue_stays_and_the_next_run_replaces_it(
    simulate: Simulate, dsn: str, client: Any
) -> None:
    command = [sys.executable, "-m", "pgqpy", "simulate", "--dsn", dsn, "--keep", "--fill", "10"]
    ended = subprocess.run([*command, "--log", "-"], check=True, capture_output=True, text=True)
    assert {json.loads(line)["do"] for line in ended.stdout.splitlines()} >= {"insert", "end"}
    assert PASSED in ended.stderr
    process = simulate("--dsn", dsn, "--keep", "--fill", "20", "--fail", "1", "--types", "*")
    assert process.wait(TIMEOUT) == 0, process.output()
    assert "ok    no event of other types" in process.output()
    assert [info.queue_name for info in client.get_queue_info()] == ["pgqpy_simulate"]
    assert len(client.get_dead_events("pgqpy_simulate", "workers")) == 20
    assert [info.consumer_name for info in client.get_consumer_info()] == ["workers"]


def test_a_signal_stops_and_removes_everything(simulate: Simulate, place: Path) -> None:
    process = simulate("--fill", "5000")
    process.wait_for_output("worker(s) started")
    children = psutil.Process(process.pid).children(recursive=True)
    process.signal(signal.SIGINT)
    assert process.wait() == 130, process.output()
    assert "interrupted: everything is stopped and removed" in process.output()
    assert list(place.iterdir()) == []
    eventually(lambda: not any(child.is_running() for child in children))


def test_a_simulation_that_is_killed_takes_its_processes_along(
    simulate: Simulate, place: Path
) -> None:
    process = simulate("--fill", "5000")
    process.wait_for_output("producers fill")
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    eventually(lambda: not any(child.is_running() for child in children))
    eventually(lambda: list(place.iterdir()) == [])
