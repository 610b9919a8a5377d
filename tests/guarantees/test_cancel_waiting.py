"""Cancelled events that wait for their time, or are moved just now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.cancelling import STATES, cancel, skip, states
from tests.guarantees.delayed import MOVE, come, delay, delay_until_due, soon, wait_until

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database


ENDS = pytest.mark.parametrize("end", ["commit", "rollback"])


def test_delayed_event_is_removed_and_waits_for_no_consumer(db: Database) -> None:
    db.queue(consumers=("c", "d"))
    first, second = delay_until_due(db.main, "a", "b")
    db.main.run("set lock_timeout = '2s'")
    slow = db.open()
    slow.begin()
    slow.one("select from pgq.registration for update")
    assert cancel(db.main, first) == {(first, "c"): "cancelled", (first, "d"): "cancelled"}
    slow.rollback()
    assert skip(db.main, "c", second) == {(second, "c"): "unknown"}
    assert come(db) == ["b"]
    assert cancel(db.main, first, second) == {
        (first, "c"): "unknown",
        (first, "d"): "unknown",
        (second, "c"): "delivered",
        (second, "d"): "cancelled",
    }


@ENDS
def test_event_that_is_moved_just_now_is_waited_for(db: Database, end: str) -> None:
    db.queue()
    (event,) = delay_until_due(db.main, "a")
    assert db.behind(MOVE, STATES, [event], end=end) == ["cancelled"]
    assert come(db) == []


@ENDS
def test_mover_leaves_what_is_being_cancelled(db: Database, end: str) -> None:
    db.queue()
    cancelled, kept = delay_until_due(db.main, "a", "b")
    other = db.open()
    other.begin()
    assert states(other, cancelled) == ["cancelled"]
    assert come(db) == ["b"]
    other.run(end)
    assert come(db) == ([] if end == "commit" else ["a"])
    assert states(db.main, kept) == ["delivered"]


def test_event_that_was_moved_long_ago_is_found_by_its_old_id(db: Database) -> None:
    db.queue()
    time = soon(db.main)
    (event,) = delay(db.main, time, "a")
    db.main.tick_after(*"bcd")
    assert db.main.drain() == ["b", "c", "d"]
    wait_until(db.main, time)
    assert db.main.one(MOVE) == 1
    db.main.tick()
    last = db.main.insert("e")
    db.main.tick()
    assert states(db.main, event, last) == ["cancelled", "cancelled"]
    assert db.main.drain() == []
