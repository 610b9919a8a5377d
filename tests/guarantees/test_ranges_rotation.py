"""Readers of ranges beside a rotation: all of a range, or an error that says what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.guarantees.ranges import fill
from tests.guarantees.sessions import RC, RR, SERIALIZABLE, refused
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tests.guarantees.sessions import Database, Session

OLD_SNAPSHOTS = pytest.mark.parametrize("isolation", [RR, SERIALIZABLE])
COUNT = "select count(*) from pgq.get_tick_events('q', 1, 2)"


def _expire(db: Database) -> int:
    """Rotate until the queue's first table is emptied; return the first tick that is left."""
    for number in range(3):
        fill(db.main, f"later {number}")
        db.main.drain()
        db.main.rotate()
    low: int = db.main.one("select queue_low_tick from pgq.queue")
    assert low > 1
    return low


def _waits_for_a_rotation(db: Database, call: str) -> tuple[Session, Future[Any]]:
    """Let a reader call while a rotation takes what it wants; return who rotates, and the call."""
    db.queue()
    fill(db.main, "a")
    for _ in range(2):
        db.main.rotate()
        fill(db.main, "b")
    db.main.drain()
    rotator, reader = db.open(), db.open()
    rotator.begin()
    rotator.one("select pgq.maint_rotate_tables_step1('q')")
    late = reader.later(call)
    wait_until_blocked(db.main.connection, reader.pid)
    return rotator, late


@pytest.mark.parametrize("isolation", [RC, RR])
def test_rotation_waits_for_who_asked_for_a_range(db: Database, isolation: str) -> None:
    db.queue()
    fill(db.main, "a")
    for number in range(2):
        assert db.main.rotate() == number + 1
        fill(db.main, "b")
    db.main.drain()
    reader = db.open()
    reader.begin(isolation)
    query = reader.one("select pgq.tick_event_sql('q', 1, 2)")
    assert db.main.rotate() == 2, "put off"
    assert [row[5] for row in reader.all(query)] == ["a"]
    reader.commit()
    assert db.main.rotate() == 0
    with refused("PQ016"):
        reader.one(COUNT)


@pytest.mark.parametrize("call", [COUNT, "select pgq.tick_event_sql('q', 1, 2)"])
def test_reader_that_waited_for_a_rotation_is_told_what_is_left(db: Database, call: str) -> None:
    rotator, late = _waits_for_a_rotation(db, call)
    rotator.commit()
    with refused("PQ016"):
        late.result(timeout=30)


def test_reader_that_waited_for_a_rotation_that_rolled_back_reads_all(db: Database) -> None:
    rotator, late = _waits_for_a_rotation(db, COUNT)
    rotator.rollback()
    assert late.result(timeout=30) == 1


@OLD_SNAPSHOTS
def test_snapshot_from_before_a_rotation_is_refused(db: Database, isolation: str) -> None:
    db.queue()
    fill(db.main, "a")
    reader = db.open()
    reader.begin(isolation)
    _expire(db)
    with refused("40001"):
        reader.one(COUNT)
    reader.rollback()
    reader.begin(isolation)
    with refused("PQ016"):
        reader.one(COUNT)


def test_reader_that_waited_for_the_queue_to_be_dropped_is_told_so(db: Database) -> None:
    db.queue()
    fill(db.main, "a")
    dropper, reader = db.open(), db.open()
    dropper.begin()
    dropper.one("select pgq.drop_queue('q', true)")
    late = reader.later(COUNT)
    wait_until_blocked(db.main.connection, reader.pid)
    dropper.commit()
    with refused("42P01"):
        late.result(timeout=30)
    with refused("PQ001"):
        reader.one(COUNT)
