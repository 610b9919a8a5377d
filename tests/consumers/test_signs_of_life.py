"""Signs of life of workers that get no second connection."""

from __future__ import annotations

import psycopg
import pytest

from tests.consumers.harness import Maker, private
from tests.support import poolers
from tests.support.waiting import eventually

NO_POOL = pytest.mark.skipif(poolers.PGBOUNCER is None, reason=poolers.WHY_SKIPPED)
ROLE = "drop role if exists lonely; create role lonely login in role pgq_reader connection limit 1"
MODES: list[dict[str, object]] = [{"lanes": 1, "key": "extra1"}, {"shared": True, "lease": 1}]


@pytest.fixture
def lonely(asynchronous, dsn, queue, connection):
    """Make consumers of a role that may have one connection."""
    connection.execute(ROLE)
    maker = Maker(f"{dsn} user=lonely", asynchronous=asynchronous)
    yield maker
    maker.close()
    connection.execute("drop role lonely")


def asks_over_its_own_session(queue, make, when_it_runs, **settings):
    """Let one event take so long that the worker has to ask before the next one."""
    seen: list[str] = []

    def handler(event):
        if not seen:
            eventually(lambda: private(running.consumer, "loop").held.in_doubt)
        seen.append(event.data)

    running = make.start(handler, dead_interval=1, **settings)
    eventually(lambda: private(running.consumer, "worked"))
    when_it_runs()
    queue.insert(*"abcd")
    queue.wait_until_finished()
    assert sorted(seen) == [*"abcd"]
    assert not private(running.consumer, "loop").held.in_doubt
    assert running.error is None


@pytest.mark.parametrize("concurrency", [1, 2])
@pytest.mark.parametrize("mode", MODES)
def test_a_worker_whose_second_connection_is_refused_asks_over_its_own(
    queue, lonely, log, mode, concurrency
):
    asks_over_its_own_session(queue, lonely, lambda: None, concurrency=concurrency, **mode)
    assert "too many connections for role" in log.text
    assert "is not ours any more" not in log.text


@NO_POOL
def test_a_worker_whose_second_connection_waits_asks_over_its_own(queue, asynchronous, dsn, log):
    wait = 60  # seconds; longer than the test
    with (
        poolers.pgbouncer(dsn, "session", default_pool_size=2, query_wait_timeout=wait) as pooled,
        psycopg.connect(pooled) as other,
    ):
        make = Maker(pooled, asynchronous=asynchronous)
        asks_over_its_own_session(queue, make, lambda: other.execute("select 1"), **MODES[0])
        make.close()
    assert "is not ours any more" not in log.text
