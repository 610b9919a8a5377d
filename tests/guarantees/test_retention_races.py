"""Retention beside seek, cancel, rotation and detach: either one first, committed or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.cancelling import states
from tests.guarantees.seek import SEEK, SEEK_TIME, ticked
from tests.guarantees.sessions import refused
from tests.guarantees.stalling import MAINT, REATTACH, TABLE, detach, stall
from tests.guarantees.test_retention import SET, later
from tests.guarantees.test_stalled_races import HELD
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

ENDS = pytest.mark.parametrize("end", ["commit", "rollback"])
STEP1 = "select pgq.maint_rotate_tables_step1('q')"
FORGET = "select pgq.maint_skipped_events()"
HIDDEN = ["cancelled", "cancelled"]
DAY = "1 day"
YOUNG = "13 hours"  # a rotation is due, and no event is older than a day
# A rotation waits after its first look for the slowest consumer, before it has any lock.
LOOKED = """
    alter function pgq.slowest_tick(int) rename to slowest_tick_itself;
    create function pgq.slowest_tick(i_queue_id int) returns bigint language plpgsql
    set lock_timeout = 0 as $$  -- the gate has no time limit
    declare v_tick bigint := pgq.slowest_tick_itself(i_queue_id); begin
    {}
    return v_tick; end $$"""


def full(db: Database) -> int:
    """Fill three tables, of which rotation truncates that of `a` next; return the first tick."""
    db.queue()
    first, _ = ticked(db.main, "a")
    for table, data in ((1, "b"), (2, "c")):
        assert db.main.rotate() == table
        ticked(db.main, data)
    assert db.main.drain() == ["a", "b", "c"]
    return first


def setting(db: Database, retention: str) -> Session:
    """Return a session that has set the retention, and has not committed it yet."""
    setter = db.open()
    setter.begin()
    setter.one(SET, retention)
    return setter


@ENDS
def test_seek_that_waited_for_a_retention_finds_what_it_keeps(db: Database, end: str) -> None:
    first = full(db)
    setter, seeker = setting(db, DAY), db.open()
    waits = seeker.later(SEEK, first, False)
    assert wait_until_blocked(db.main.connection, seeker.pid) == [setter.pid]
    setter.run(end)
    assert waits.result(timeout=30) == first
    later(db, YOUNG)
    assert db.main.rotate() == 2, "the consumer needs it"
    assert db.main.drain() == ["a", "b", "c"]
    assert db.main.rotate() == (2 if end == "commit" else 0)


@ENDS
def test_retention_that_ends_behind_a_seek_takes_nothing_from_the_consumer(
    db: Database, end: str
) -> None:
    first = full(db)
    db.main.one(SET, DAY)
    later(db, YOUNG)
    assert db.main.rotate() == 2
    seeker, setter = db.open(), db.open()
    seeker.begin()
    assert seeker.one(SEEK, first, False) == first
    waits = setter.later(SET, "")
    assert wait_until_blocked(db.main.connection, setter.pid) == [seeker.pid]
    seeker.run(end)
    assert waits.result(timeout=30) == 1
    assert db.main.rotate() == (2 if end == "commit" else 0)
    assert db.main.drain() == (["a", "b", "c"] if end == "commit" else [])


def test_seek_and_the_end_of_a_retention_while_a_rotation_begins(db: Database) -> None:
    first = full(db)
    rotator = db.open()
    with db.held(rotator, LOOKED) as gate:
        rotation = rotator.later(STEP1)
        gate.wait_for_arrival()
        db.main.one(SET, DAY)
        assert db.main.one(SEEK, first, False) == first
        db.main.one(SET, "")
        gate.open()
        rotation.result(timeout=30)
    assert db.main.rotate() == 2
    assert db.main.drain() == ["a", "b", "c"]
    assert db.main.rotate() == 0


@ENDS
def test_rotation_does_nothing_beside_a_retention(db: Database, end: str) -> None:
    full(db)
    setter = setting(db, DAY)
    assert db.main.rotate() == 2
    setter.run(end)
    later(db, YOUNG)
    assert db.main.rotate() == (2 if end == "commit" else 0)


@ENDS
def test_retention_that_waited_for_a_rotation_keeps_what_is_left(db: Database, end: str) -> None:
    full(db)
    rotator, setter = db.open(), db.open()
    rotator.begin()
    rotator.one(STEP1)
    waits = setter.later(SET, DAY)
    assert wait_until_blocked(db.main.connection, setter.pid) == [rotator.pid]
    rotator.run(end)
    assert waits.result(timeout=30) == 1
    later(db, YOUNG)
    for _ in range(3):
        db.main.rotate()
    left = ["c"] if end == "commit" else ["a", "b", "c"]
    assert db.main.one(TABLE) == left, "b was out of reach when the retention began"
    db.main.one(SEEK_TIME, "-infinity")
    assert db.main.drain() == left


@ENDS
@pytest.mark.parametrize("begins", ["retention", "cancellation"])
def test_what_is_cancelled_beside_a_retention_stays_hidden_while_it_is_kept(
    db: Database, begins: str, end: str
) -> None:
    first = full(db)
    ids = db.main.one("select array_agg(ev_id) from pgq.event_1 where ev_data <> 'c'")
    db.main.one(SEEK, first, False)
    other = db.open()
    if begins == "retention":
        setter = setting(db, DAY)
        other.begin()
        assert states(other, *ids) == HIDDEN, "nobody waits"
        setter.commit()
    else:
        other.begin()
        assert states(other, *ids) == HIDDEN
        assert db.main.one(SET, DAY) == 1, "nobody waits"
    other.run(end)
    later(db, YOUNG)
    comes = ["c"] if end == "commit" else ["a", "b", "c"]
    assert db.main.drain() == comes
    assert db.main.rotate() == 2
    db.main.one(FORGET)
    assert db.main.one(SEEK, first, False) == first
    assert db.main.drain() == comes


@ENDS
def test_consumer_that_is_detached_beside_a_new_retention_misses_nothing(
    db: Database, end: str
) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    ticker = db.open()
    ticker.begin()
    ticker.one(MAINT)
    assert db.main.one(SET, DAY) == 1, "nobody waits"
    ticker.run(end)
    later(db, YOUNG)
    assert db.main.rotate() == 2
    assert db.main.one(REATTACH, False) == (end == "commit")
    assert db.main.drain() == ["a", "b"]


@ENDS
def test_retention_that_is_set_beside_a_detach_keeps_the_events(db: Database, end: str) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    setter = setting(db, DAY)
    assert detach(db) == 1, "nobody waits"
    setter.run(end)
    later(db, YOUNG)
    assert db.main.rotate() == (2 if end == "commit" else 0)
    if end == "commit":
        assert db.main.one(REATTACH, False) == 1
        assert db.main.drain() == ["a", "b"]
    else:
        with refused("PQ016"):
            db.main.one(REATTACH, False)


def test_retention_that_is_set_while_a_detach_looks_keeps_the_events(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    ticker = db.open()
    with db.held(ticker, HELD) as gate:
        maint = ticker.later(MAINT)
        gate.wait_for_arrival()
        db.main.one(SET, DAY)
        gate.open()
        assert maint.result(timeout=30) == 0
    later(db, YOUNG)
    assert db.main.rotate() == 2
    db.main.one(REATTACH, False)
    assert db.main.drain() == ["a", "b"]
