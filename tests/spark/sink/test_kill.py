"""SIGKILL between the sink's commit and Spark's: the epoch comes again, and is not doubled."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.spark.harness_cluster import SessionProcess
from tests.spark.sink.misbehaving import GATE_KEY
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

FILES, LINES = 4, 500
AT_THE_GATE = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
# A backend that waits for a lock does not notice that its client is gone.
LEAVE_THE_GATE = """
    select pg_terminate_backend(pid, 10000) from pg_locks
     where locktype = 'advisory' and not granted"""


@pytest.fixture
def drive(dsn, tmp_path):
    """Start the driver: `drive(GATED_EPOCH="2")`; killed at the end."""
    with ExitStack() as stack:

        def start(**env: str) -> SessionProcess:
            program = str(Path(__file__).parent / "misbehaving.py")
            root = str(Path(__file__).parents[3])
            env = {"PGQPY_DSN": dsn, "PYTHONPATH": root, **env}
            process = SessionProcess(sys.executable, program, str(tmp_path), env=env)
            stack.callback(process.close)
            return process

        yield start


def test_driver_killed_between_both_commits_doubles_no_epoch(
    drive: Any, stored: Any, connection: psycopg.Connection[Any], connect: Any, tmp_path: Path
) -> None:
    truth = []
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        lines = [f"{number} {line}" for line in range(LINES)]
        (tmp_path / "in" / f"{number}.txt").write_text("\n".join(lines) + "\n")
        truth += lines
    gate = connect(autocommit=False)
    gate.execute("select pg_advisory_lock(%s)", [GATE_KEY])
    driver = drive(GATED_EPOCH="2", FAILING_EPOCH="1")
    eventually(partial(waits, connection, driver), 300, interval=0.05)
    driver.kill()
    assert connection.execute("select ledger_epoch from pgq.ledger").fetchone() == (2,)
    assert not (tmp_path / "checkpoint" / "commits" / "2").exists()
    assert "the first attempt fails after it has written" in driver.output()
    connection.execute(LEAVE_THE_GATE)
    gate.close()
    assert drive().wait() == 0
    assert sorted(stored()) == sorted(truth)
    assert (tmp_path / "checkpoint" / "commits" / str(FILES - 1)).exists()


def waits(connection: psycopg.Connection[Any], driver: SessionProcess) -> bool:
    """Say whether a driver waits at the gate; fails if it ended."""
    if not driver.running:
        raise RuntimeError(f"the driver ended:\n{driver.output()}")
    return connection.execute(AT_THE_GATE).fetchone() == (1,)
