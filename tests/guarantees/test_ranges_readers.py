"""Readers of tick ranges: one owner (G5), what is kept for them, all of a range or an error."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from tests.guarantees.ranges import ADVANCE, PIN, data, ticks
from tests.guarantees.seek import PINS, ticked
from tests.guarantees.sessions import RC, RR, refused
from tests.guarantees.stalling import DETACHED, MAINT, REATTACH, stall
from tests.guarantees.test_retention import SET, later

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database


ENDS = pytest.mark.parametrize("end", ["commit", "rollback"])
CALLS = pytest.mark.parametrize("call", ["pin_range", "advance_subscription"])
ADVANCE_FAR = "select pgq.advance_subscription('q', 'c', 1, 4)"
PIN_FAR = "select pgq.pin_range('q', 'c', 1, 4)"
SEEK_BACK = "select tick_id from pgq.seek_consumer('q', 'c', 1)"
SEEK_FAR = "select tick_id from pgq.seek_consumer('q', 'c', 4)"
COUNT = "select count(*) from pgq.get_tick_events('q', 1, 2)"
WAITED = [  # what one does, what another waits with, and how that is refused
    ("select pgq.advance_subscription('q', 'c', 1, 3)", ADVANCE_FAR, "PQ017"),
    ("select pgq.advance_subscription('q', 'c', 1, 3)", PIN_FAR, "PQ017"),
    ("select pgq.unregister_consumer('q', 'c')", ADVANCE_FAR, "PQ002"),
    (PIN_FAR, SEEK_BACK, "PQ017"),
    (ADVANCE_FAR, SEEK_BACK, "PQ017"),
    (SEEK_FAR, "select pgq.pin_range('q', 'c', 1, 2)", "PQ017"),
    (SEEK_FAR, "select pgq.advance_subscription('q', 'c', 1, 2)", "PQ017"),
    ("select pgq.drop_queue('q', true)", COUNT, "42P01"),
]


@ENDS
@pytest.mark.parametrize(("first", "late", "state"), WAITED)
def test_call_that_waited_for_another_is_refused_if_that_commits(
    db: Database, first: str, late: str, state: str, end: str
) -> None:
    db.queue()
    db.main.tick_after(*"abc")
    with nullcontext() if end == "rollback" else refused(state):
        assert db.behind(first, late, end=end) == 1


def test_retried_events_belong_to_no_range(db: Database) -> None:
    db.queue()
    db.main.tick_after("a")
    batch = db.main.next()
    assert db.main.one("select pgq.event_retry(%s, 1, 0)", batch) == 1
    assert db.main.finish(batch) == 1
    assert db.main.one("select pgq.maint_retry_events()") == 1
    db.main.tick_after("b")
    assert data(db.main, 1, 3) == ["a", "b"]
    assert data(db.main, 2, 3) == ["b"]
    assert db.main.drain() == ["a", "b"], "the consumer has it again"


def _expire(db: Database) -> int:
    """Rotate until the queue's first table is emptied; return the first tick that is left."""
    for number in range(3):
        db.main.tick_after(f"later {number}")
        db.main.drain()
        db.main.rotate()
    low: int = db.main.one("select queue_low_tick from pgq.queue where queue_id = 1")
    assert low > 1
    return low


@pytest.mark.parametrize("isolation", [RC, RR])
def test_rotation_waits_for_who_asked_for_a_range(db: Database, isolation: str) -> None:
    db.queue()
    db.main.tick_after("a")
    for number in range(2):
        assert db.main.rotate() == number + 1
        db.main.tick_after("b")
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


@ENDS
@pytest.mark.parametrize("call", [COUNT, "select pgq.tick_event_sql('q', 1, 2)"])
def test_reader_that_waited_for_a_rotation_is_told_what_is_left(
    db: Database, call: str, end: str
) -> None:
    db.queue()
    db.main.tick_after("a")
    for _ in range(2):
        db.main.rotate()
        db.main.tick_after("b")
    db.main.drain()
    with nullcontext() if end == "rollback" else refused("PQ016"):
        assert db.behind("select pgq.maint_rotate_tables_step1('q')", call, end=end)


def test_snapshot_from_before_a_rotation_is_refused(db: Database) -> None:
    db.queue()
    db.main.tick_after("a")
    reader = db.open()
    reader.begin(RR)
    _expire(db)
    with refused("40001"):
        reader.one(COUNT)
    reader.rollback()
    reader.begin(RR)
    with refused("PQ016"):
        reader.one(COUNT)


ONE_SECOND = "update pgq.tick set tick_time = '2026-01-01 12:00:00.5'"


@pytest.mark.parametrize(
    "calls",
    [
        (),
        ("compact_positions()", "maint_positions()"),
        ("advance_subscription('q', 'c', 1, 3)",),
        ("repair_queue('q')",),
    ],
)
def test_pinned_ticks_are_not_thinned_out(db: Database, calls: tuple[str, ...]) -> None:
    db.queue()
    db.main.tick_after(*"abcdef")
    db.main.run(ONE_SECOND)
    assert db.main.one(PIN, 3, 5) == 1
    for call in calls:
        db.main.one(f"select pgq.{call}")
    db.main.one("select pgq.compact_ticks()")
    assert ticks(db.main) == [1, 3, 5, 7]
    assert [data(db.main, *pair) for pair in ((1, 3), (3, 5), (5, 7))] == [
        ["a", "b"],
        ["c", "d"],
        ["e", "f"],
    ]


@pytest.mark.parametrize("call", [PIN, ADVANCE])
def test_compaction_is_put_off_while_somebody_takes_a_tick(db: Database, call: str) -> None:
    db.queue()
    db.main.tick_after(*"abc")
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
    low, switch = db.main.all(
        "select queue_low_tick, queue_switch_tick from pgq.queue where queue_id = 1"
    )[0]
    assert low < switch < max(ticks(db.main))
    db.main.run(ONE_SECOND)
    db.main.one("select pgq.compact_ticks()")
    for tick, events in ((low, ["d"]), (switch, [])):
        db.main.one("select pgq.register_consumer_at('q', 'back', %s)", tick)
        assert db.main.drain("back") == events
    db.main.rotate()
    assert db.main.one("select queue_low_tick from pgq.queue where queue_id = 1") == switch


def test_rotation_takes_nothing_that_the_subscription_has_not_passed(db: Database) -> None:
    db.queue()
    db.main.tick_after("a")
    assert db.main.rotate() == 1
    db.main.tick_after("b")
    assert db.main.rotate() == 2
    db.main.tick_after("c")
    db.main.one(PIN, 1, 4)
    assert db.main.rotate() == 2, "the first table is next"
    assert data(db.main, 1, 4) == ["a", "b", "c"]
    assert db.main.one(ADVANCE, 1, 3) == 1
    assert db.main.rotate() == 0
    assert ticks(db.main)[0] <= 3
    assert data(db.main, 3, 4) == ["c"]
    with refused("PQ016"):
        data(db.main, 1, 4)


@CALLS
@ENDS
def test_reader_of_ticks_that_waited_for_a_detach_is_refused(
    db: Database, call: str, end: str
) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    first, last = db.main.all("select min(tick_id), max(tick_id) from pgq.get_tick_info('q')")[0]
    with nullcontext() if end == "rollback" else refused("PQ024"):
        assert db.behind(MAINT, f"select pgq.{call}('q', 'c', %s, %s)", first, last, end=end) == 1
    if end == "commit":
        assert db.main.one(REATTACH, False) == 1
        assert db.main.one(PINS, first, last) == 1, "it goes on where it was"


@ENDS
def test_rotation_and_the_end_of_a_retention_leave_a_reader_of_ticks_its_range(
    db: Database, end: str
) -> None:
    db.queue(retention="1 day")
    first, last = ticked(db.main, "a")
    later(db, "13 hours")
    assert db.main.rotate() == 1
    ticked(db.main, "b")
    later(db, "13 hours")
    assert db.main.rotate() == 2
    assert db.main.one(PINS, first, last) == 1
    reader = db.open()
    reader.begin()
    assert reader.one(ADVANCE, first, last) == 1
    assert db.main.one(SET, "") == 1, "nobody waits"
    assert db.main.rotate() == 2
    reader.run(end)
    count = "select count(*) from pgq.get_tick_events('q', %s, %s)"
    assert db.main.rotate() == (0 if end == "commit" else 2)
    if end == "commit":
        with refused("PQ016"):
            db.main.one(count, first, last)
    else:
        assert db.main.one(count, first, last) == 1
        assert db.main.one(ADVANCE, first, last) == 1
    assert db.main.one(DETACHED) == 0
