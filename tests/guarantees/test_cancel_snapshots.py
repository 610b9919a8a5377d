"""Cancellations and consumers in REPEATABLE READ and SERIALIZABLE, with older snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees import cancelling
from tests.guarantees.cancelling import states
from tests.guarantees.sessions import RR, SERIALIZABLE, refused

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database


@pytest.mark.parametrize("isolation", [RR, SERIALIZABLE])
@pytest.mark.parametrize("before", [0, 1])
def test_older_snapshot_opens_no_batch_with_a_cancelled_event(
    db: Database, isolation: str, before: int
) -> None:
    db.queue()
    ids = [db.main.insert("a") for _ in range(3)]
    db.main.tick()
    assert states(db.main, *ids[:before]) == ["cancelled"] * before
    old = db.open()
    old.begin(isolation)
    assert states(db.main, ids[1]) == ["cancelled"]
    with refused("40001"):
        old.next()
    old.rollback()
    old.begin(isolation)
    batch = old.next()
    assert len(old.events(batch)) == 2 - before
    old.rollback()


@pytest.mark.parametrize("isolation", [RR, SERIALIZABLE])
def test_older_snapshot_that_has_finished_a_batch_opens_no_other(
    db: Database, isolation: str
) -> None:
    db.queue()
    db.main.insert("a")
    db.main.tick()
    event = db.main.insert("b")
    db.main.tick()
    batch = db.main.next()
    old = db.open()
    old.begin(isolation)
    assert old.data(batch) == ["a"]
    assert states(db.main, event) == ["cancelled"]
    assert old.finish(batch) == 1
    with refused("40001"):
        old.next()
    old.rollback()
    assert db.main.drain() == ["a"]


def test_older_snapshot_notices_though_older_cancellations_are_forgotten(db: Database) -> None:
    db.queue()
    states(db.main, db.main.insert("a"))
    for _ in range(4):
        db.main.insert("b")
        assert db.main.deliver() == ["b"]
        db.main.rotate()
    event = db.main.insert("c")
    db.main.tick()
    old = db.open()
    old.begin(RR)
    db.main.one("select pgq.maint_skipped_events()")
    assert states(db.main, event) == ["cancelled"]
    with refused("40001"):
        old.next()


@pytest.mark.parametrize("isolation", [RR, SERIALIZABLE])
def test_cancellation_with_an_older_snapshot(db: Database, isolation: str) -> None:
    db.queue()
    first, second = db.main.insert("a"), db.main.insert("b")
    db.main.tick()
    old, other = db.open(), db.open()
    old.begin(isolation)
    assert states(old, first) == ["cancelled"]
    old.commit()
    old.begin(isolation)
    assert states(other, second) == ["cancelled"]
    third = other.insert("c")
    with refused("40001"):  # another session cancelled
        states(old, third)
    old.rollback()
    old.begin(isolation)
    db.main.tick()
    db.main.next()
    with refused("40001"):  # the consumer went on
        cancelling.skip(old, "c", third)
    old.rollback()
    assert states(db.main, third) == ["cancelled"]
    assert db.main.deliver() == []
