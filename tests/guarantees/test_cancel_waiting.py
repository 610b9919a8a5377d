"""Cancelled events that wait for their time, are moved just now, or are parked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.cancelling import STATES, cancel, skip, states, states_later
from tests.guarantees.delayed import MOVE, come, delay, delay_until_due, soon, wait_until
from tests.guarantees.lanes import runs
from tests.guarantees.parking import TAKE, parked, set_aside, take
from tests.guarantees.test_parked_lanes import TAKE as TAKE_LANE
from tests.guarantees.test_parked_lanes import insert, park_all, take_parked
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.guarantees.lanes import Run
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


FIRST = "select min(ev_id) from pgq.parked"
# A run has chosen its events, and has not locked the lane.
HELD = """
    alter function pgq.choose_parked(int, int, jsonb) rename to choose_parked_itself;
    create function pgq.choose_parked(i_owner int, i_limit int, i_lane jsonb) returns bigint[]
    language plpgsql as $$
    declare v_ids bigint[] := pgq.choose_parked_itself(i_owner, i_limit, i_lane); begin
    {}
    return v_ids; end $$"""


def in_lane(db: Database) -> tuple[Run, int]:
    """Park two events of one key in a lane; return its run, and the id of the first one."""
    (run,) = runs(db, 1, lanes=1)
    insert(db.main, "a1", "a2")
    park_all(run, "0")
    return run, int(db.main.one(FIRST))


@ENDS
def test_parked_events_are_taken_as_a_cancellation_leaves_them(db: Database, end: str) -> None:
    event = set_aside(db, "a1", data=("a1", "a2")).one(FIRST)
    batch = db.behind(lambda other: states(other, event), TAKE, 10, end=end)
    assert db.main.data(batch) == (["a2"] if end == "commit" else ["a1"])
    assert db.main.finish(batch) == 1
    assert parked(db.main) == ([] if end == "commit" else ["a2"])


@ENDS
def test_parked_events_that_are_taken_first_are_delivered(db: Database, end: str) -> None:
    event = set_aside(db, "a1", data=("a1", "a2")).one(FIRST)
    taker, other = db.open(), db.open()
    taker.begin()
    batch = take(taker)
    assert taker.data(batch) == ["a1"]
    waits = states_later(other, event)
    assert wait_until_blocked(db.main.connection, other.pid) == [taker.pid]
    taker.run(end)
    assert waits.result(timeout=30) == ["delivered" if end == "commit" else "cancelled"]
    assert taker.data(batch if end == "commit" else take(taker)) == [
        "a1" if end == "commit" else "a2"
    ]


@ENDS
def test_parked_events_of_a_lane_are_not_taken_beside_a_cancellation(
    db: Database, end: str
) -> None:
    run, event = in_lane(db)
    other = db.open()
    other.begin()
    assert states(other, event) == ["cancelled"]
    assert take_parked(run) is None
    other.run(end)
    left = [("a", "2")] if end == "commit" else [("a", "1")]
    assert run.events(take_parked(run))[:1] == left


def test_lane_whose_parked_event_is_cancelled_before_the_lock_does_not_get_it(
    db: Database,
) -> None:
    run, event = in_lane(db)
    with db.held(run.session, HELD) as gate:
        taking = run.session.later(TAKE_LANE, run.holder)
        gate.wait_for_arrival()
        assert states(db.main, event) == ["cancelled"]
        gate.open()
        batch = taking.result(timeout=30)
    found = run.events(batch)
    assert run.finish(batch) == 1
    if not found:
        found = run.events(take_parked(run))
    assert found == [("a", "2")]
