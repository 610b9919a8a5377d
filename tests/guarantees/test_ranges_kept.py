"""What is kept of ranges of ticks: pins, what was not passed, where a consumer may be moved to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.ranges import ADVANCE, PIN, data, fill, ticks
from tests.guarantees.sessions import refused

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

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
