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

from pgqpy.simulate import peer
from tests.support.servers import memory
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.processes import PythonProcess

    Simulate = Callable[..., PythonProcess]

TIMEOUT = 110  # seconds
PASSED = "verdict: passed, every promise was kept"
PEER = peer.NAME
SCHEMA_IS_THERE = "select exists (select from pg_namespace where nspname = 'pgqpy_simulate')"


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
    options = ["--fill", "150", "--kill-every", "300ms", "--work", "8ms-9ms", "--workers", "2"]
    process = simulate("--no-compare", *options, "--log", str(log))
    process.wait_for_output("workers started", TIMEOUT)
    children = psutil.Process(process.pid).children(recursive=True)
    assert not any("host=" in word for child in children for word in child.cmdline())
    assert process.wait(TIMEOUT) == 0, process.output()
    assert process.output().rstrip().endswith(PASSED)
    assert PEER not in process.output()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    wanted = {"insert", "commit", "rollback", "start", "begin", "end", "kill"}
    assert wanted <= {line["do"] for line in lines}
    log.unlink()
    assert list(place.iterdir()) == []
    eventually(lambda: not any(child.is_running() for child in children))


def row(output: str, name: str) -> list[str]:
    """Return the values of one row of the table that stands in the output."""
    (line,) = (line for line in output.splitlines() if line.startswith(f"│ {name} "))
    return [cell.strip() for cell in line.strip("│").split("│")][1:]


def test_both_systems_get_the_same_events_on_a_database_of_ones_own(
    simulate: Simulate, dsn: str, client: Any, place: Path
) -> None:
    log = place / "log"
    load = ["--rate", "100", "--fill", "90", "--workers", "3", "--kill-every", "400ms"]
    process = simulate("--dsn", dsn, *load, "--sleep", "10ms", "--delmsg", "--log", str(log))
    assert process.wait(TIMEOUT) == 0, process.output()
    output = process.output()
    assert PASSED in output
    assert row(output, "events committed") == row(output, "events handled") == ["90", "90"]
    assert row(output, "order broken") == row(output, "lost") == ["0", "0"]
    assert row(output, "handled twice") == ["0", "0"]
    inserted: dict[str, list[Any]] = {"pgqpy": [], PEER: []}
    for line in map(json.loads, log.read_text().splitlines()):
        if line["do"] == "insert":
            inserted[line["system"]].append((line["number"], line["key"], line["type"]))
    assert sorted(inserted["pgqpy"]) == sorted(inserted[PEER])
    assert client.get_queue_info() == []
    assert client.connection.execute(SCHEMA_IS_THERE).fetchone() == (False,)


def test_with_keep_queue_and_table_stay_and_the_next_run_replaces_them(
    simulate: Simulate, dsn: str, client: Any
) -> None:
    options = ["--dsn", dsn, "--keep", "--workers", "1"]
    command = [sys.executable, "-m", "pgqpy", "simulate", *options, "--fill", "10", "--log", "-"]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    assert {json.loads(line)["do"] for line in ended.stdout.splitlines()} >= {"insert", "end"}
    assert PASSED in ended.stderr
    process = simulate(*options, "--fill", "20", "--fail", "1")
    assert process.wait(TIMEOUT) == 0, process.output()
    assert [info.queue_name for info in client.get_queue_info()] == ["pgqpy_simulate"]
    assert len(client.get_dead_events("pgqpy_simulate", "workers")) == 20
    assert [info.consumer_name for info in client.get_consumer_info()] == ["workers"]
    marked = (
        "select status, count(*), count(time_processed) from pgqpy_simulate.msg_queue group by 1"
    )
    assert client.connection.execute(marked).fetchall() == [("P", 20, 20)]


def test_the_peers_table_may_be_made_by_sql_of_ones_own(
    simulate: Simulate, dsn: str, client: Any, place: Path
) -> None:
    schema = place / "schema.sql"
    index = "create index by_key on msg_queue (queue_type, order_id, time_added)"
    schema.write_text(f"drop table if exists msg_queue; {peer.CREATE} {index} where status = 'N';")
    options = ["--fill", "10", "--workers", "1", "--schema", str(schema)]
    process = simulate("--dsn", dsn, "--keep", *options)
    assert process.wait(TIMEOUT) == 0, process.output()
    found = client.connection.execute("select to_regclass('pgqpy_simulate.by_key') is not null")
    assert found.fetchone() == (True,)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("create table msg_queue (", "--schema: syntax error at end of input"),
        ("", '--schema: relation "msg_queue" does not exist'),
        ("create table msg_queue (id int)", '--schema: column "msg_id" does not exist'),
    ],
)
def test_sql_that_makes_no_such_table_is_refused_at_once(
    simulate: Simulate, dsn: str, client: Any, place: Path, sql: str, said: str
) -> None:
    schema = place / "schema.sql"
    schema.write_text(sql)
    process = simulate("--dsn", dsn, "--schema", str(schema))
    assert process.wait(TIMEOUT) == 1, process.output()
    assert process.output().splitlines()[-1].endswith(said)
    assert "producers" not in process.output()
    assert client.connection.execute(SCHEMA_IS_THERE).fetchone() == (False,)


def test_an_interruption_of_the_peer_leaves_our_verdict(simulate: Simulate, place: Path) -> None:
    process = simulate("--fill", "30", "--workers", "1")
    process.wait_for_output(f"{PEER}: 2 producers", TIMEOUT)
    process.signal(signal.SIGINT)
    assert process.wait(TIMEOUT) == 0, process.output()
    assert "interrupted: everything is stopped and removed" in process.output()
    assert process.output().rstrip().endswith(PASSED)
    assert list(place.iterdir()) == []


def test_a_signal_stops_and_removes_everything(simulate: Simulate, place: Path) -> None:
    process = simulate("--workers", "2", "--work", "100ms")
    process.wait_for_output("workers started", TIMEOUT)
    children = psutil.Process(process.pid).children(recursive=True)
    process.signal(signal.SIGINT)
    assert process.wait(TIMEOUT) == 130, process.output()
    assert "interrupted: everything is stopped and removed" in process.output()
    assert list(place.iterdir()) == []
    eventually(lambda: not any(child.is_running() for child in children))


def test_a_simulation_that_is_killed_takes_its_processes_along(
    simulate: Simulate, place: Path
) -> None:
    process = simulate("--workers", "2", "--work", "100ms")
    process.wait_for_output("producers insert")
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    eventually(lambda: not any(child.is_running() for child in children))
    eventually(lambda: list(place.iterdir()) == [])
