"""Retention: rotation keeps events for a time, whoever has read them, and beside other calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.cancelling import states
from tests.guarantees.seek import SEEK, SEEK_TIME, ticked
from tests.guarantees.sessions import refused
from tests.guarantees.stalling import MAINT, REATTACH, TABLE, stall
from tests.guarantees.test_stalled import HELD as DETACH_HELD
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session


SET = "select pgq.set_queue_config('q', 'retention', %s)"
ROTATES_AFTER = "select queue_rotates_after::text from pgq.queue where queue_id = 1"
# It is later: the last rotation, and each tick, are this much further back.
LATER = """
    with switched as (
        update pgq.queue set queue_switch_time = queue_switch_time - %(by)s::interval)
    update pgq.tick set tick_time = tick_time - %(by)s::interval where tick_queue = 1"""
# The clock was so far ahead, or behind, at the last tick.
CLOCK = """
    update pgq.tick set tick_time = tick_time + %s::interval
     where tick_id = (select max(tick_id) from pgq.tick where tick_queue = 1) returning 1"""
HELD = """
    alter function pgq.slowest_tick(int) rename to slowest_tick_itself;
    create function pgq.slowest_tick(i_queue_id int) returns bigint language plpgsql
    set lock_timeout = 0 as $$ begin  -- the gate has no time limit
    {}
    return pgq.slowest_tick_itself(i_queue_id); end $$"""


def later(db: Database, by: str) -> None:
    """Let time pass."""
    db.main.connection.execute(LATER, {"by": by})


@pytest.mark.parametrize("ahead", [False, True], ids=["", "clock was ahead"])
@pytest.mark.parametrize("consumers", [("c",), ()])
def test_events_stay_for_the_retention_and_not_for_ever(
    db: Database, consumers: tuple[str, ...], *, ahead: bool
) -> None:
    db.queue(retention="1 hour")
    if not consumers:
        db.main.one("select pgq.unregister_consumer('q', 'c')")
    for number, data in enumerate("abcd"):
        ticked(db.main, data)
        if ahead and data == "a":
            db.main.one(CLOCK, "1 day")
        if consumers:
            db.main.drain()
        later(db, "35 minutes")
        assert db.main.rotate() == (number + 1) % 3, "when its events are older than an hour"
        assert db.main.one("select pgq.maint_ticks('q')") == 0
    assert db.main.one("select array_agg(ev_data order by ev_id) from pgq.event_1") == ["c", "d"]
    db.main.one("select pgq.register_consumer('q', 'c')")
    db.main.one(SEEK_TIME, "-infinity")
    assert db.main.drain() == ["d"], "c is older than an hour"


@pytest.mark.parametrize("clock", ["0", "-1 day"], ids=["", "clock was behind"])
def test_rotation_waits_until_the_events_are_old_enough(db: Database, clock: str) -> None:
    db.queue(retention="1 hour")
    for turn, (retention, passed) in enumerate((("1 h", "31 min"), ("3 h", "91 min")), 1):
        db.main.one(SET, retention)
        ticked(db.main, "ab"[turn - 1])
        db.main.one(CLOCK, clock)
        db.main.drain()
        later(db, passed)
        assert db.main.rotate() == turn
    db.main.one(SET, "10 hours")
    later(db, "6 hours")
    assert db.main.rotate() == 2, "the events of the next table are 8 hours old"
    assert db.main.one(SEEK, 1, False) == 1
    assert db.main.drain() == ["a", "b"]
    later(db, "3 hours")
    assert db.main.rotate() == 0


def test_tables_share_the_retention(db: Database) -> None:
    db.queue()
    db.main.one("select pgq.set_queue_config('q', 'rotation_period', '2 hours')")
    for retention, tables, period in (
        ("", 3, "02:00:00"),
        ("3 hours", 3, "02:00:00"),
        ("6 hours", 3, "03:00:00"),
        ("6 hours", 4, "02:00:00"),
        ("7 days", 8, "1 day"),
    ):
        db.main.one("select pgq.set_queue_config('q', 'ntables', %s)", str(tables))
        db.main.one(SET, retention)
        assert db.main.one(ROTATES_AFTER) == period
    for wrong in ("-1 hour", "200 years", "soon"):
        with refused("PQ009"):
            db.main.one(SET, wrong)


def test_retention_that_is_set_while_a_rotation_begins_holds(db: Database) -> None:
    db.queue()
    for data in "abc":
        ticked(db.main, data)
        db.main.drain()
        if data != "c":
            db.main.rotate()
    rotator = db.open()
    with db.held(rotator, HELD) as gate:
        rotation = rotator.later("select pgq.maint_rotate_tables_step1('q')")
        gate.wait_for_arrival()
        db.main.one(SET, "1 day")
        gate.open()
        rotation.result(timeout=30)
    assert db.main.one("select queue_cur_table from pgq.queue where queue_id = 1") == 2
    assert db.main.one("select array_agg(ev_data order by ev_id) from pgq.event_1") == [*"abc"]


@pytest.mark.parametrize("consumers", [("c",), ()])
def test_rotation_minds_the_ticks_and_consumers_of_its_own_queue_only(
    db: Database, consumers: tuple[str, ...]
) -> None:
    db.queue("other", consumers=("slow",))
    for _ in range(9):
        db.main.insert("a", "other")
        db.main.tick("other")
    db.queue(consumers=consumers)
    assert db.main.one("select pgq.tick_sees_table(2, 9, 0)") is False, "a tick of another queue"
    for table in (1, 2, 0):
        db.main.tick_after("a")
        if consumers:
            assert db.main.drain() == ["a"]
        assert db.main.rotate() == table


def test_retention_keeps_no_tick_that_every_consumer_and_rotation_passed(db: Database) -> None:
    db.queue(retention="1 minute")
    for data in "abcdef":
        ticked(db.main, data)
        db.main.drain()
        later(db, "1 hour")
        db.main.rotate()
    db.main.one("select pgq.maint_ticks('q')")
    assert db.main.one("select count(*) from pgq.tick where tick_queue = 1") <= 4


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
    assert db.behind(STEP1, SET, DAY, end=end) == 1
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


def test_retention_that_is_set_while_a_detach_looks_keeps_the_events(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    ticker = db.open()
    with db.held(ticker, DETACH_HELD) as gate:
        maint = ticker.later(MAINT)
        gate.wait_for_arrival()
        db.main.one(SET, DAY)
        gate.open()
        assert maint.result(timeout=30) == 0
    later(db, YOUNG)
    assert db.main.rotate() == 2
    db.main.one(REATTACH, False)
    assert db.main.drain() == ["a", "b"]
