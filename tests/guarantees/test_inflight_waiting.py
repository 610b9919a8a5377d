"""Events in flight that come again later, and those that wait behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.inflight import call, follow, insert, receive, shared
from tests.guarantees.sessions import refused

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

QUERY = """
    select state, key, ev_data, attempts, due is null
      from pgq.get_waiting_events('q', 's', %s, %s, %s)"""


def test_failed_events_are_told_before_those_that_wait_behind_them(db: Database) -> None:
    shared(db, "a1", "b1", "c1", "d1", key="extra1")
    a, b, c, _d = (receive(db.main) for _ in range(4))
    insert(db.main, "a2", "a3", "c2", "d2")
    assert receive(db.main) == []
    assert call(db.main, "retry", a, "2 hours") == 1
    assert call(db.main, "retry", b, "1 hour", False) == 1
    assert call(db.main, "retry", c, "1 hour") == 1
    parked = [
        ("parked", "c", "c1", 1, False),
        ("parked", "c", "c2", 0, True),
        ("parked", "a", "a1", 1, False),
        ("parked", "a", "a2", 0, True),
        ("parked", "a", "a3", 0, True),
    ]
    retrying = ("retrying", None, "b1", 1, False)
    assert db.main.all(QUERY, "parked", None, None) == parked
    assert db.main.all(QUERY, "retrying", None, None) == [retrying]
    assert db.main.all(QUERY, None, None, 2) == [retrying, parked[0]]
    assert db.main.all(QUERY, None, [a[0].id, 99], None) == [parked[2]]


def test_without_order_nothing_waits_behind_a_failed_event(db: Database) -> None:
    db.queue(consumers=())
    db.main.one("select pgq.register_shared_consumer('q', 's', 'extra1', 2)")
    insert(db.main, "a1", "a2", "a3")
    assert call(db.main, "retry", receive(db.main), "1 hour") == 1
    rows = db.main.all(QUERY, None, None, None)
    assert [row[:3] for row in rows] == [("retrying", None, "a1")]


@pytest.mark.parametrize("rotated", [False, True])
def test_events_are_told_also_from_their_copies(db: Database, rotated: bool) -> None:
    shared(db, "a1", key="extra1")
    assert call(db.main, "retry", receive(db.main), "1 hour") == 1
    for table in (1, 2, 0) if rotated else ():
        follow(db)
        assert db.main.rotate() == table
    assert [row[2] for row in db.main.all(QUERY, None, None, None)] == ["a1"]


def test_a_plain_consumer_has_none(db: Database) -> None:
    db.queue(consumers=("s",))
    with refused("PQ020"):
        db.main.all(QUERY, None, None, None)
