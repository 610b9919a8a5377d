"""Batch and stream on a standalone cluster on loopback: a master and two workers."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.guarantees.history import Findings
from tests.spark.harness import RECOVERY, Flow
from tests.spark.harness_cluster import Standalone, standalone
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pgqpy.testing import EmbeddedServer
    from tests.support.processes import PythonProcess

ENOUGH = 200_000  # bytes that the producers write down
KILLS = 2
BETWEEN = 3  # micro-batches of each query from one kill to the next


@pytest.fixture
def cluster(
    own_server: EmbeddedServer, spawn: Callable[..., PythonProcess], tmp_path: Path
) -> Iterator[tuple[Flow, Standalone]]:
    """A flow on a master and two workers, and these."""
    with (
        closing(Flow(own_server, spawn, tmp_path)) as flow,
        standalone(tmp_path, flow.environment) as started,
    ):
        flow.master = started.url
        yield flow, started


@pytest.mark.slow
def test_a_batch_and_a_stream_read_what_was_committed(cluster: tuple[Flow, Standalone]) -> None:
    flow, _ = cluster
    eventually(lambda: flow.produced() > ENOUGH)
    output = flow.come_to_rest("batch")
    assert "partitions: 4, executors: 2\n" in output
    assert flow.findings(flow.files("batch.jsonl")) == Findings()
    assert flow.findings(flow.files()) == Findings()
    assert flow.findings(flow.tables()) == Findings()
    assert sorted(flow.files()) == sorted(flow.files("batch.jsonl"))


@pytest.mark.long
def test_a_query_outlives_its_executors(cluster: tuple[Flow, Standalone]) -> None:
    flow, started = cluster
    driver = flow.start("stream")
    flow.progress(BETWEEN)
    for _ in range(KILLS):
        eventually(lambda: len(started.executors()) == 2, RECOVERY)
        flow.random_moment()
        flow.choose.choice(started.executors()).kill()
        flow.progress(BETWEEN)
    assert driver is flow.driver
    assert driver.running
    flow.come_to_rest()
    assert flow.findings(flow.files()) == Findings()
    assert flow.findings(flow.tables()) == Findings()
    assert flow.wrong_sums() == []
