"""Batch and stream on one machine, on a cluster in miniature, and on a real one on loopback."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from tests.guarantees.history import Findings
from tests.spark.harness import Flow
from tests.spark.harness_cluster import standalone
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import psutil

    from pgqpy.testing import EmbeddedServer
    from tests.support.processes import PythonProcess

pytestmark = pytest.mark.slow

MINIATURE = "local-cluster[2,1,1024]"
STANDALONE = "standalone"
ENOUGH = 200_000  # bytes that the producers write down
KILLS = 3
BETWEEN = 3  # micro-batches of each query from one kill to the next


class Cluster:
    """A flow, and the executors that its driver has."""

    def __init__(self, flow: Flow, executors: Callable[[], list[psutil.Process]] | None) -> None:
        self.flow, self._executors = flow, executors

    def executors(self) -> list[psutil.Process]:
        """Return the executors: in miniature they are the driver's children."""
        assert self.flow.driver is not None
        return self._executors() if self._executors else self.flow.driver.executors()


@pytest.fixture
def cluster(
    request: pytest.FixtureRequest,
    own_server: EmbeddedServer,
    spawn: Callable[..., PythonProcess],
    tmp_path: Path,
) -> Iterator[Cluster]:
    """The flow on the master that the test names."""
    with ExitStack() as stack:
        flow = stack.enter_context(closing(Flow(own_server, spawn, tmp_path)))
        flow.master = request.param
        executors = None
        if request.param == STANDALONE:
            started = stack.enter_context(standalone(tmp_path, flow.environment))
            flow.master, executors = started.url, started.executors
        yield Cluster(flow, executors)


@pytest.mark.parametrize(
    ("cluster", "executors"),
    [("local[2]", 0), (MINIATURE, 2), (STANDALONE, 2)],
    indirect=["cluster"],
)
def test_a_batch_and_a_stream_read_what_was_committed(cluster: Cluster, executors: int) -> None:
    flow = cluster.flow
    eventually(lambda: flow.produced() > ENOUGH)
    said = flow.come_to_rest("batch")
    assert f"partitions: 4, executors: {executors}\n" in said
    assert flow.findings(flow.files("batch.jsonl")) == Findings()
    assert flow.findings(flow.files()) == Findings()
    assert flow.findings(flow.tables()) == Findings()
    assert sorted(flow.files()) == sorted(flow.files("batch.jsonl"))


@pytest.mark.parametrize("cluster", [MINIATURE, STANDALONE], indirect=True)
def test_a_query_outlives_its_executors(cluster: Cluster) -> None:
    flow = cluster.flow
    driver = flow.start("stream")
    flow.progress(BETWEEN)
    for _ in range(KILLS):
        eventually(lambda: len(cluster.executors()) == 2)
        flow.random_moment()
        flow.choose.choice(cluster.executors()).kill()
        flow.progress(BETWEEN)
    assert driver is flow.driver
    assert driver.running
    flow.come_to_rest()
    assert flow.findings(flow.files()) == Findings()
    assert flow.findings(flow.tables()) == Findings()
    assert flow.wrong_sums() == []
