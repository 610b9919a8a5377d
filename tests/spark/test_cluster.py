"""Batch and stream on a standalone cluster on loopback: a master and two workers."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.guarantees.history import Findings
from tests.spark.harness import RECOVERY, Flow
from tests.spark.harness_cluster import standalone
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import psutil

    from pgqpy.testing import EmbeddedServer
    from tests.support.processes import PythonProcess

ENOUGH = 200_000  # bytes that the producers write down
KILLS = 2
BETWEEN = 3  # micro-batches of each query from one kill to the next


class Cluster:
    """A flow, and the executors that its driver has."""

    def __init__(self, flow: Flow, executors: Callable[[], list[psutil.Process]]) -> None:
        self.flow, self.executors = flow, executors


@pytest.fixture
def cluster(
    own_server: EmbeddedServer, spawn: Callable[..., PythonProcess], tmp_path: Path
) -> Iterator[Cluster]:
    """The flow on a master and two workers."""
    with (
        closing(Flow(own_server, spawn, tmp_path)) as flow,
        standalone(tmp_path, flow.environment) as started,
    ):
        flow.master = started.url
        yield Cluster(flow, started.executors)


@pytest.mark.slow
def test_a_batch_and_a_stream_read_what_was_committed(cluster: Cluster) -> None:
    flow = cluster.flow
    eventually(lambda: flow.produced() > ENOUGH)
    output = flow.come_to_rest("batch")
    assert "partitions: 4, executors: 2\n" in output
    assert flow.findings(flow.files("batch.jsonl")) == Findings()
    assert flow.findings(flow.files()) == Findings()
    assert flow.findings(flow.tables()) == Findings()
    assert sorted(flow.files()) == sorted(flow.files("batch.jsonl"))


@pytest.mark.long
def test_a_query_outlives_its_executors(cluster: Cluster) -> None:
    flow = cluster.flow
    driver = flow.start("stream")
    flow.progress(BETWEEN)
    for _ in range(KILLS):
        eventually(lambda: len(cluster.executors()) == 2, RECOVERY)
        flow.random_moment()
        flow.choose.choice(cluster.executors()).kill()
        flow.progress(BETWEEN)
    assert driver is flow.driver
    assert driver.running
    flow.come_to_rest()
    assert flow.findings(flow.files()) == Findings()
    assert flow.findings(flow.tables()) == Findings()
    assert flow.wrong_sums() == []
