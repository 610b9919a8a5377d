"""The server crashes in the middle of the streams: they go on, or start again, without loss."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.guarantees.history import Findings
from tests.spark.harness import Flow
from tests.support.crash import kill_server

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pgqpy.testing import EmbeddedServer
    from tests.support.processes import PythonProcess

pytestmark = pytest.mark.long

BETWEEN = 4  # micro-batches of each query from one crash to the next


def test_nothing_is_lost_or_doubled_when_the_server_crashes(
    own_server: EmbeddedServer, spawn: Callable[..., PythonProcess], tmp_path: Path
) -> None:
    with closing(Flow(own_server, spawn, tmp_path)) as flow:
        flow.start("stream")
        flow.progress(BETWEEN)
        for crash in (stop_at_once, kill_server):
            flow.random_moment()
            crash(own_server)
            own_server.start()
            flow.progress(BETWEEN, revive=True)
        flow.come_to_rest()
        assert flow.findings(flow.files()) == Findings()
        assert flow.findings(flow.tables()) == Findings()
        assert flow.wrong_sums() == []


def stop_at_once(server: EmbeddedServer) -> None:
    server.stop("immediate")
