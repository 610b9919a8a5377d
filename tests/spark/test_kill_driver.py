"""SIGKILL of the driver with all it started, well into its streams: nothing is lost or doubled."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.guarantees.history import Findings
from tests.spark.harness import CONSUMERS, GATE_KEY, Flow
from tests.support.gates import Gate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pgqpy.testing import EmbeddedServer
    from tests.support.processes import PythonProcess

pytestmark = pytest.mark.slow

KILLS = 1  # at a random moment
WELL_INTO = 2  # micro-batches that each query has to commit before it is killed
AFTER_COMMIT = 1  # kills between the commit of foreachBatch and Spark's


@pytest.fixture
def flow(
    own_server: EmbeddedServer, spawn: Callable[..., PythonProcess], tmp_path: Path
) -> Iterator[Flow]:
    with closing(Flow(own_server, spawn, tmp_path)) as flow:
        yield flow


def test_files_and_tables_hold_what_was_committed_whatever_was_killed(flow: Flow) -> None:
    with psycopg.connect(flow.dsn, autocommit=True) as keeper:
        for number in range(KILLS):
            kill_at_random(flow)
            if number < AFTER_COMMIT:
                kill_after_commit(flow, keeper)
    flow.come_to_rest()
    assert flow.findings(flow.files()) == Findings()
    assert flow.findings(flow.tables()) == Findings()
    assert flow.wrong_sums() == []
    assert flow.query("select count(*) from refused")[0][0] >= AFTER_COMMIT
    assert min(map(flow.epochs, CONSUMERS)) >= (KILLS + AFTER_COMMIT) * WELL_INTO
    # It rotated all the while: some of what was read is not there any more.
    assert flow.rotations() > KILLS + AFTER_COMMIT
    assert flow.left() < len(flow.tables())


def kill_at_random(flow: Flow) -> None:
    driver = flow.start("stream")
    flow.progress(WELL_INTO)
    flow.random_moment()
    assert driver.running, driver.output()
    driver.close()


def kill_after_commit(flow: Flow, keeper: psycopg.Connection) -> None:
    """Kill it when foreachBatch has committed, and Spark does not know yet."""
    driver = flow.start("stream")
    flow.progress(WELL_INTO)
    gate = Gate(keeper, GATE_KEY)
    gate.wait_for_arrival()
    driver.close()
    gate.open()
