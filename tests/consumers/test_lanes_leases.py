"""Lanes with a lease: no session holds anything, so a transaction pooler may share sessions."""

from __future__ import annotations

import pytest

from tests.consumers.harness import NOTE
from tests.consumers.lanes import LANES, in_order, insert
from tests.consumers.test_leases import make
from tests.consumers.workers import ENDED, taken
from tests.support.waiting import eventually

__all__ = ["make"]  # the fixture: direct, and through a pool

LOCKS = (
    "select count(*) from pg_locks where locktype = 'advisory' and classid in (7366514, 7366516)"
)
LEASED = {**LANES, "lease": 3600}  # seconds: nothing extends it in a test
ONE = {**LEASED, "lanes": 1}


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


@pytest.mark.parametrize("transactional", [False, True])
def test_a_run_whose_lease_has_ended_changes_nothing(
    queue, make, effects, gate, waiting_handler, connection, log, transactional
):
    for count in (1, 2):
        make.start(waiting_handler[transactional], **ONE, transactional=transactional)
        if count == 1:
            queue.insert("a")
            gate.wait_for_arrival()
            (lost,) = taken(connection)
            connection.execute(ENDED)
    eventually(lambda: len(gate.waiting()) == 2)
    assert taken(connection) != [lost]
    gate.open()
    eventually(lambda: not taken(connection))
    eventually(lambda: f"batch {lost} of queue orders, consumer billing.extra1-1-of-1" in log.text)
    queue.insert("b")
    eventually(lambda: "b" in effects())
    assert effects() == ["a", "b"] if transactional else sorted(effects()) == ["a", "a", "b"]
