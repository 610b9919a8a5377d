"""Lanes with a lease: no session holds anything, so a transaction pooler may share sessions."""

from __future__ import annotations

import pytest

from tests.consumers.harness import NOTE
from tests.consumers.lanes import LANES, in_order, insert
from tests.consumers.test_leases import make
from tests.consumers.workers import taken
from tests.support.waiting import eventually

__all__ = ["make"]  # the fixture: direct, and through a pool

LOCKS = (
    "select count(*) from pg_locks where locktype = 'advisory' and classid in (7366514, 7366516)"
)
LEASED = {**LANES, "lease": 3600}  # seconds: nothing extends it in a test


@pytest.mark.parametrize("settings", [{}, {"transactional": True, "part_size": 2}])
def test_runs_with_a_lease_keep_the_order_of_each_key(
    queue, make, effects, connection, connect, settings
):
    def transactional(event):
        yield NOTE, [event.data]

    def plain(event):
        with connect() as other:
            other.execute(NOTE, [event.data])

    handler = transactional if settings.get("transactional") else plain
    started = [make.start(handler, **LEASED, **settings) for _ in range(3)]
    datas = insert(queue, range(8))
    queue.wait_until_finished()
    eventually(lambda: sorted(effects()) == sorted(datas))
    assert in_order(effects())
    assert connection.execute(LOCKS).fetchone() == (0,)
    for running in started:
        running.stop()
    assert taken(connection) == []
