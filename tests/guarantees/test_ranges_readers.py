"""Readers of tick ranges: one owner (G5), what is kept for them, all of a range or an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.guarantees.ranges import ADVANCE, PIN, data, fill, ticks
from tests.guarantees.sessions import RC, RR, SERIALIZABLE, refused
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tests.guarantees.sessions import Database, Session


OLD_SNAPSHOTS = pytest.mark.parametrize("isolation", [RR, SERIALIZABLE])


def _rivals(db: Database, call: str) -> tuple[Session, Future[Any]]:
    """Let one advance, and another call meanwhile; return the one, and what the other waits for."""
    db.queue()
    fill(db.main, *"abc")
    one, other = db.open(), db.open()
    one.begin()
    assert one.one(ADVANCE, 1, 3) == 1
    late = other.later(call, 1, 4)
    wait_until_blocked(db.main.connection, other.pid)
    return one, late


def test_of_two_that_advance_at_once_one_wins(db: Database) -> None:
    one, late = _rivals(db, ADVANCE)
    one.commit()
    with refused("PQ017"):
        late.result(timeout=30)
    assert db.main.one("select sub_last_tick from pgq.subscription") == 3
    assert db.main.one(ADVANCE, 1, 3) == 0, "said again"


def test_advance_that_waited_for_one_that_rolled_back_wins(db: Database) -> None:
    one, late = _rivals(db, ADVANCE)
    one.rollback()
    assert late.result(timeout=30) == 1


def test_pin_that_waited_for_an_advance_is_refused(db: Database) -> None:
    one, late = _rivals(db, PIN)
    one.commit()
    with refused("PQ017"):
        late.result(timeout=30)


def test_advance_that_waited_for_the_consumer_to_leave_is_refused(db: Database) -> None:
    db.queue()
    fill(db.main, *"abc")
    one, other = db.open(), db.open()
    one.begin()
    assert one.one("select pgq.unregister_consumer('q', 'c')") == 1
    late = other.later(ADVANCE, 1, 3)
    wait_until_blocked(db.main.connection, other.pid)
    one.commit()
    with refused("PQ002"):
        late.result(timeout=30)


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


ONE_SECOND = "update pgq.tick set tick_time = '2026-01-01 12:00:00.5'"


def test_pinned_ticks_are_not_thinned_out(db: Database) -> None:
    db.queue()
    fill(db.main, *"abcdef")
    db.main.run(ONE_SECOND)
    assert db.main.one(PIN, 3, 5) == 1
    assert db.main.one("select pgq.compact_ticks()") is True
    assert ticks(db.main) == [1, 3, 5, 7]
    assert data(db.main, 1, 3) == ["a", "b"]
    assert data(db.main, 3, 5) == ["c", "d"]


def test_pins_outlive_the_compaction_of_positions(db: Database) -> None:
    db.queue()
    fill(db.main, *"abcdef")
    db.main.run(ONE_SECOND)
    assert db.main.one(PIN, 3, 5) == 1
    assert db.main.one("select pgq.compact_positions()") is True
    assert db.main.one("select pgq.maint_positions()") == 0
    db.main.one("select pgq.compact_ticks()")
    assert ticks(db.main) == [1, 3, 5, 7]


def test_pins_ahead_outlive_an_advance(db: Database) -> None:
    db.queue()
    fill(db.main, *"abcdef")
    db.main.run(ONE_SECOND)
    assert db.main.one(PIN, 3, 5) == 1
    assert db.main.one(ADVANCE, 1, 3) == 1
    db.main.one("select pgq.compact_ticks()")
    assert ticks(db.main) == [1, 3, 5, 7]
    assert db.main.one(ADVANCE, 3, 5) == 1


def test_pins_outlive_a_repair(db: Database) -> None:
    db.queue()
    fill(db.main, *"abcdef")
    db.main.run(ONE_SECOND)
    assert db.main.one(PIN, 3, 5) == 1
    db.main.one("select pgq.repair_queue('q')")
    assert ticks(db.main) == [1, 3, 5, 7]
    assert [data(db.main, *pair) for pair in ((1, 3), (3, 5), (5, 7))] == [
        ["a", "b"],
        ["c", "d"],
        ["e", "f"],
    ]


@pytest.mark.parametrize("call", [PIN, ADVANCE])
def test_compaction_is_put_off_while_somebody_takes_a_tick(db: Database, call: str) -> None:
    db.queue()
    fill(db.main, *"abc")
    reader = db.open()
    reader.begin()
    assert reader.one(call, 1, 3) == 1
    assert db.main.one("select pgq.compact_ticks()") is False
    reader.commit()
    assert db.main.one("select pgq.compact_ticks()") is True
    assert 3 in ticks(db.main)


def test_compaction_keeps_the_ticks_back_to_which_a_consumer_may_be_moved(db: Database) -> None:
    db.queue()
    for payload in "abcd":
        db.main.insert(payload)
        assert db.main.deliver() == [payload]
        db.main.rotate()
    assert db.main.deliver() == []
    low, switch = db.main.all("select queue_low_tick, queue_switch_tick from pgq.queue")[0]
    assert low < switch < max(ticks(db.main))
    db.main.run(ONE_SECOND)
    db.main.one("select pgq.compact_ticks()")
    for tick, events in ((low, ["d"]), (switch, [])):
        db.main.one("select pgq.register_consumer_at('q', 'back', %s)", tick)
        assert db.main.drain("back") == events
    db.main.rotate()
    assert db.main.one("select queue_low_tick from pgq.queue") == switch


def test_rotation_takes_nothing_that_the_subscription_has_not_passed(db: Database) -> None:
    db.queue()
    fill(db.main, "a")
    assert db.main.rotate() == 1
    fill(db.main, "b")
    assert db.main.rotate() == 2
    fill(db.main, "c")
    db.main.one(PIN, 1, 4)
    assert db.main.rotate() == 2, "the first table is next"
    assert data(db.main, 1, 4) == ["a", "b", "c"]
    assert db.main.one(ADVANCE, 1, 3) == 1
    assert db.main.rotate() == 0
    assert ticks(db.main)[0] <= 3
    assert data(db.main, 3, 4) == ["c"]
    with refused("PQ016"):
        data(db.main, 1, 4)
