"""Cancellations and consumers in REPEATABLE READ and SERIALIZABLE, with older snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees import cancelling
from tests.guarantees.cancelling import states
from tests.guarantees.sessions import RR, SERIALIZABLE, refused

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

FORGET = "select pgq.maint_skipped_events()"
REGISTER = "select pgq.register_consumer('q', %s)"


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
    db.main.one(FORGET)
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


@pytest.mark.parametrize("isolation", [RR, SERIALIZABLE])
def test_older_snapshot_registers_no_consumer_after_rows_are_forgotten(
    db: Database, isolation: str
) -> None:
    db.queue()
    old = db.open()
    old.begin(isolation)
    assert states(db.main, db.main.insert("a")) == ["cancelled"]
    assert states(db.main, db.main.insert("b")) == ["cancelled"]
    db.main.one(FORGET)
    with refused("40001"):
        old.one(REGISTER, "late")
    old.rollback()
    old.one(REGISTER, "late")
    assert db.main.deliver() == db.main.drain("late") == []


@pytest.mark.parametrize("isolation", [RR, SERIALIZABLE])
def test_older_snapshot_cancels_nothing_after_rows_are_forgotten(
    db: Database, isolation: str
) -> None:
    db.queue()
    event = db.main.insert("a")
    old = db.open()
    old.begin(isolation)
    for consumer in ("d", "e"):
        db.main.one(REGISTER, consumer)
    db.main.one(FORGET)
    with refused("40001"):
        states(old, event)
    old.rollback()
    assert cancelling.cancel(old, event)[event, "d"] == "cancelled"
    assert db.main.deliver() == db.main.drain("d") == []


def test_rows_without_an_event_go_with_a_rotation(db: Database) -> None:
    db.queue()
    for _ in range(4):
        assert states(db.main, db.main.insert("a")) == ["cancelled"]
        assert db.main.deliver() == []
        db.main.rotate()
    db.main.one(FORGET)
    assert db.main.one("select count(*) from pgq.skipped_event where skip_sub < 0") <= 4
