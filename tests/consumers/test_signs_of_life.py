"""Signs of life of workers that get no second connection."""

from __future__ import annotations

import pytest

from tests.consumers.harness import Maker, private
from tests.support.waiting import eventually

ROLE = "drop role if exists lonely; create role lonely login in role pgq_reader connection limit 1"


@pytest.fixture
def make(asynchronous, dsn, queue, connection):
    """Make consumers of a role that may have one connection."""
    connection.execute(ROLE)
    maker = Maker(f"{dsn} user=lonely", asynchronous=asynchronous)
    yield maker
    maker.close()
    connection.execute("drop role lonely")


@pytest.mark.parametrize("concurrency", [1, 2])
@pytest.mark.parametrize("how", [{"lanes": 1, "key": "extra1"}, {"shared": True, "lease": 1}])
def test_a_worker_without_a_second_connection_asks_over_its_own(queue, make, log, how, concurrency):
    seen: list[str] = []

    def handler(event):
        if not seen:
            eventually(lambda: private(running.consumer, "loop").held.in_doubt)
        seen.append(event.data)

    queue.insert(*"abcd")
    running = make.start(handler, dead_interval=1, concurrency=concurrency, **how)
    queue.wait_until_finished()
    assert sorted(seen) == [*"abcd"]
    assert "too many connections for role" in log.text
    assert "is not ours any more" not in log.text
    assert running.error is None
