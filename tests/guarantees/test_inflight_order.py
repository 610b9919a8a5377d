"""Order per key of shared consumers: a later event waits for the earlier, whoever has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.inflight import (
    SOON,
    call,
    data,
    done,
    drain,
    end_lease,
    insert,
    receive,
    shared,
)
from tests.support import gates

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

SWEEP = "update pgq.front set front_swept = '-infinity', front_looked = '-infinity'"
WAITING = "select count(*) from pgq.inflight where run_token = -2"


def test_events_of_a_key_come_one_after_the_other(db: Database) -> None:
    shared(db, "a1", "b1", "a2", "a3", "b2", key="extra1")
    first, second = receive(db.main), receive(db.main)
    assert data(first + second) == ["a1", "b1"]
    assert receive(db.main) == []
    assert done(db.main, first) == 1
    third = receive(db.main)
    assert data(third) == ["a2"]
    assert receive(db.main) == []
    assert done(db.main, third) == 1
    assert data(receive(db.main)) == ["a3"]


def test_next_event_comes_when_the_handler_commits(db: Database) -> None:
    shared(db, "a1", "a2", key="extra1")
    handler = db.open()
    claimed = receive(handler)
    handler.begin()
    assert done(handler, claimed) == 1
    assert receive(db.main) == []
    handler.rollback()
    assert receive(db.main) == []
    assert done(handler, claimed) == 1
    assert data(receive(db.main)) == ["a2"]


def test_event_that_is_refilled_while_the_handler_commits_waits(db: Database) -> None:
    """The refill cannot lock the run before: so the claim looks whether it is left."""
    shared(db, "a1", key="extra1")
    handler = db.open()
    claimed = receive(handler)
    handler.begin()
    assert done(handler, claimed) == 1
    insert(db.main, "a2", "a3")
    assert receive(db.main) == []  # refills, and waits for nobody
    handler.commit()
    second = receive(db.main)
    assert data(second) == ["a2"]
    assert done(db.main, second) == 1
    assert drain(db.main) == ["a3"]


def test_event_is_not_claimed_when_the_handler_rolls_back(db: Database) -> None:
    shared(db, "a1", key="extra1")
    handler = db.open()
    claimed = receive(handler)
    handler.begin()
    assert done(handler, claimed) == 1
    insert(db.main, "a2")
    assert receive(db.main) == []
    handler.rollback()
    assert receive(db.main) == []
    assert done(handler, claimed) == 1
    assert drain(db.main) == ["a2"]


def test_handler_that_commits_after_the_refill_promotes(db: Database) -> None:
    """The refill has locked the run: its end waits, and then sees the run behind it."""
    shared(db, "a1", key="extra1")
    handler, refill = db.open(), db.open()
    claimed = receive(handler)
    insert(db.main, "a2")
    refill.begin()
    assert receive(refill) == []
    ends = handler.later("select pgq.done('q', 's', %s)", claimed[0].token)
    assert gates.wait_until_blocked(db.main.connection, handler.pid) == [refill.pid]
    refill.commit()
    assert ends.result(timeout=30) == 1
    assert drain(db.main) == ["a2"]


def test_late_transaction_with_an_earlier_id_comes_after(db: Database) -> None:
    """Order of insert is not order of commit."""
    shared(db, key="extra1")
    late = db.open()
    late.begin()
    insert(late, "a-late")
    insert(db.main, "a1")
    first = receive(db.main)
    late.commit()
    assert receive(db.main) == []
    assert done(db.main, first) == 1
    assert drain(db.main) == ["a-late"]


def test_parked_event_keeps_its_key(db: Database) -> None:
    shared(db, "a1", "a2", "a3", "b1", key="extra1")
    claimed = receive(db.main, 3)
    assert data(claimed) == ["a1", "a2", "a3"]
    assert done(db.main, claimed[:1]) == 1
    assert call(db.main, "retry", claimed[1:2], "1 hour") == 1
    insert(db.main, "a4")
    assert drain(db.main) == ["b1"]
    db.main.run(SOON)
    again = receive(db.main, 1)
    assert [(each.data, each.attempts) for each in again] == [("a2", 2)]
    assert done(db.main, again) == 1
    again = receive(db.main, 1)
    assert [(each.data, each.attempts) for each in again] == [("a3", 1)]
    assert done(db.main, again) == 1
    assert drain(db.main) == ["a4"]


def test_event_without_its_key_lets_the_others_go_on(db: Database) -> None:
    shared(db, "a1", "a2", key="extra1")
    first = receive(db.main)
    assert call(db.main, "retry", first, "1 hour", False) == 1
    assert drain(db.main) == ["a2"]
    db.main.run(SOON)
    assert drain(db.main) == ["a1"]


def test_dead_event_lets_the_others_go_on(db: Database) -> None:
    shared(db, "a1", "a2", key="extra1")
    assert call(db.main, "dead", receive(db.main), "bad") == 1
    assert drain(db.main) == ["a2"]


def test_order_outlives_the_end_of_a_lease(db: Database) -> None:
    shared(db, "a1", "a2", "a3", key="extra1")
    first = receive(db.main, 2)
    end_lease(db, first)
    assert [data(receive(db.main, 2)), receive(db.main, 2)] == [["a1", "a2"], []]


def test_run_that_nobody_promoted_goes_on_at_the_next_sweep(db: Database) -> None:
    shared(db, "a1", "a2", key="extra1")
    first = receive(db.main)
    db.main.run("delete from pgq.inflight where run_token > 0")  # as if its end had missed it
    assert done(db.main, first) == 0
    assert receive(db.main) == []
    db.main.run(SWEEP)
    assert drain(db.main) == ["a2"]


def test_sweep_forgets_keys_without_runs(db: Database) -> None:
    shared(db, "a1", "b1", "b2", key="extra1")
    first = receive(db.main)
    assert done(db.main, first) == 1
    db.main.run(SWEEP)
    receive(db.main, alone=True)
    assert db.main.one("select count(*) from pgq.last_run") == 1
    insert(db.main, "a2", "b3")
    assert data(receive(db.main)) == ["a2"]
    assert db.main.one(WAITING) == 2


def test_events_without_a_key_have_no_order(db: Database) -> None:
    shared(db, key="extra1")
    for number in range(3):
        db.main.one("select pgq.insert_event('q', 't', %s)", str(number))
    assert [data(receive(db.main)) for _ in range(3)] == [["0"], ["1"], ["2"]]


def test_event_behind_a_cancelled_one_waits_for_the_one_before_it(db: Database) -> None:
    shared(db, "a1", "a2", key="extra1")
    first = receive(db.main)
    cancelled = db.main.one("select max(ev_id) from pgq.event_1")
    db.main.one("select pgq.cancel_event('q', array[%s::bigint])", cancelled)
    insert(db.main, "a3")
    assert receive(db.main) == []
    assert done(db.main, first) == 1
    assert drain(db.main) == ["a3"]


@pytest.mark.parametrize("limit", [1, 20])
def test_keys_behind_a_hot_one_come(db: Database, limit: int) -> None:
    shared(db, key="extra1")
    hot = "insert into pgq.event_1_0 (ev_type, ev_data, ev_extra1) select 't', 'a' || g, 'a' from"
    db.main.run(f"{hot} generate_series(1, 10000) g")
    insert(db.main, "b1")
    first = receive(db.main, limit)
    assert data(first) == [f"a{number}" for number in range(1, limit + 1)]
    assert data(receive(db.main, limit)) == ["b1"]
    assert db.main.one("select count(*) from pgq.inflight") < 1000
    assert done(db.main, first) == limit
    assert drain(db.main, 100)[:3] == [f"a{limit + number}" for number in (1, 2, 3)]
    assert db.main.one("select count(*) from pgq.inflight") == 1  # b1


def test_event_that_is_promoted_late_is_not_passed_by_the_mark(db: Database) -> None:
    """A session that sweeps may have an older transaction than one that promotes."""
    shared(db, "a1", "b1", "c1", "d1", "a2", key="extra1")
    sweeper, handler = db.open(), db.open()
    first = receive(handler)
    sweeper.begin()
    receive(sweeper, alone=True)
    handler.begin()
    assert done(handler, first) == 1
    assert data(receive(db.main)) == ["c1"]  # takes a later number
    for session in (sweeper, db.main):
        session.run("update pgq.front set front_swept = '-infinity'")
        receive(session, alone=True)
        if session is sweeper:
            sweeper.commit()
    handler.commit()
    assert drain(db.main) == ["a2"]


def test_event_that_loses_its_key_lets_nobody_pass_those_before_it(db: Database) -> None:
    shared(db, "a1", "a2", "a3", key="extra1")
    claimed = receive(db.main, 3)
    insert(db.main, "a4")
    assert receive(db.main) == []
    assert call(db.main, "retry", claimed[2:], "1 hour", False) == 1
    assert receive(db.main) == []
    assert done(db.main, claimed[:2]) == 2
    assert drain(db.main) == ["a4"]


def test_events_of_a_key_are_cancelled_together(db: Database) -> None:
    shared(db, "a1", "a2", "a3", "a4", key="extra1")
    assert done(db.main, receive(db.main)) == 1
    cancelled = "select count(*) from pgq.cancel_event('q', '{2,3}') where state = 'cancelled'"
    assert db.main.one(cancelled) == 2
    assert drain(db.main) == ["a4"]


def test_runs_of_a_key_whose_lease_ends_come_one_after_the_other(db: Database) -> None:
    shared(db, "a1", "a2", "a3", key="extra1")
    claimed = receive(db.main, 3)
    assert call(db.main, "retry", claimed[1:2], "1 hour", False) == 1  # so a1 and a3 are two runs
    end_lease(db, claimed)
    first = receive(db.main)
    assert data(first) == ["a1"]
    assert receive(db.main) == []
    assert done(db.main, first) == 1
    assert drain(db.main) == ["a3"]


def test_event_that_was_to_wait_for_a_cancelled_one_waits_for_all(db: Database) -> None:
    shared(db, "a1", "a2", key="extra1")
    handler = db.open()
    first = receive(handler)
    handler.begin()
    assert done(handler, first) == 1  # promotes a2
    insert(db.main, "a3")
    assert receive(db.main) == []  # a3 waits for a2
    handler.rollback()
    db.main.one("select pgq.cancel_event('q', '{2}')")
    assert receive(db.main) == []
    assert done(handler, first) == 1
    assert drain(db.main) == ["a3"]


@pytest.mark.parametrize("count", [2, 3])
def test_part_of_a_run_is_ended_while_another_is_returned(db: Database, count: int) -> None:
    """What is left of the run is another row then."""
    shared(db, *"abc"[:count])
    claimed = receive(db.main, count)
    ended = db.behind(
        lambda session: call(session, "retry", claimed[1:2], "1 hour"),
        "select pgq.done('q', 's', %s, array[%s::bigint])",
        claimed[0].token,
        claimed[0].id,
    )
    assert ended == 1
    left = [each.id for each in claimed[2:]]
    assert db.main.all("select run_ids from pgq.inflight where run_token > 0") == [
        ([each],) for each in left
    ]
