"""A change of the lanes: the old ones go to one tick, then the new ones begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.guarantees.lanes import INSERT, KEYS, LANES, SET, Run, held_look, in_order, insert, runs
from tests.guarantees.sessions import refused
from tests.support.gates import wait_until_blocked
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

STOP = "select max(sub_stop_tick) from pgq.registration"
FURTHEST = """
    select max(coalesce(pos_next_tick, pos_last_tick)) from pgq.current_position
     where sub_queue = 1"""
RETRY = """
    select pgq.event_retry(%s, array_agg(ev_id), array_agg(ev_txid), array_agg(interval '0'))
    from pgq.get_batch_events(%s) where ev_extra1 = %s
"""
LAST_LANE = """
    select sub_id from pgq.registration
     where sub_mode = 'lane' order by sub_id desc limit 1 for no key update"""


def finish_all(held: dict[Run, int | None]) -> list[tuple[str, str]]:
    """Read and finish batches."""
    found = []
    for run, batch in held.items():
        found += run.events(batch)
        assert run.finish(batch) == 1
    return found


@pytest.mark.parametrize(("before", "after"), [(4, 3), (3, 8), (1, 5), (5, 1)])
def test_order_is_kept_with_batches_open(db: Database, before: int, after: int) -> None:
    one, other, third = runs(db, 3, lanes=before)
    insert(db.main, 1)
    db.main.tick()
    held = {one: one.take()}
    insert(db.main, 2)
    db.main.tick()
    if before > 1:
        held[other] = other.take()
    assert db.main.one(SET, after, "extra1") == 1
    assert db.main.one(STOP) == db.main.one(FURTHEST)
    insert(db.main, 3)
    db.main.tick()
    found = third.drain()
    assert all(data < "003" for _, data in found), "nothing of the new lanes"
    found += finish_all(held)
    for run in (third, one, other):
        found += run.drain()
    assert in_order(found)
    assert len(found) == 60
    assert db.main.one(LANES) == after


def test_another_key_orders_by_it_from_one_tick_on(db: Database) -> None:
    one, other = runs(db)
    insert(db.main, 1)
    db.main.tick()
    batch = one.take()
    assert db.main.one(SET, 4, "extra2") == 1
    by_two = "select pgq.insert_event('q', 't', %s, %s, %s, null, null)"
    for number in range(2, 5):
        for key in KEYS:
            db.main.one(by_two, f"{number:03}", key, "the same")
    db.main.tick()
    found = other.drain()
    found += one.events(batch)
    assert {data for _, data in found} == {"001"}
    one.finish(batch)
    taken = other.take()
    assert one.take() is None, "all events are in one lane"
    assert len(other.events(taken)) == 60
    assert len(found) == 20


def test_number_goes_up_and_back(db: Database) -> None:
    (run,) = runs(db, 1, lanes=8)
    found = []
    for number, lanes in enumerate([12, 8, 12, 8]):
        insert(db.main, number)
        db.main.tick()
        batch = run.take()
        assert db.main.one(SET, lanes, "extra1") == 1
        found += run.events(batch)
        assert run.finish(batch) == 1
        found += run.drain()
    assert in_order(found)
    assert len(found) == 80
    assert db.main.one(LANES) == 8


def test_change_that_nobody_ran_after_is_done_with_the_next_one(db: Database) -> None:
    (run,) = runs(db, 1)
    insert(db.main, 1)
    db.main.tick()
    assert [db.main.one(SET, lanes, "extra1") for lanes in (3, 4, 4, 3)] == [1, 1, 0, 1]
    assert db.main.one(LANES) == 7
    assert len(run.drain()) == 20


def test_change_during_a_change_is_refused(db: Database) -> None:
    (run,) = runs(db, 1)
    insert(db.main, 1)
    db.main.tick()
    batch = run.take()
    assert db.main.one(SET, 3, "extra1") == 1
    for lanes, key in [(4, "extra1"), (3, "extra2")]:
        with pytest.raises(psycopg.Error) as failed:
            db.main.one(SET, lanes, key)
        assert failed.value.sqlstate == "PQ021"
        assert failed.value.diag.message_detail == "4 old lanes are not at tick 2 yet"
    assert db.main.one(SET, 3, "extra1") == 0
    assert run.finish(batch) == 1


def test_retried_events_that_come_back_during_a_change_come_once(db: Database) -> None:
    one, other = runs(db)
    insert(db.main, 1)
    db.main.tick()
    held = {one: one.take(), other: other.take()}
    keys = {}
    for run, batch in held.items():
        keys[run] = run.events(batch)[0][0]
        assert run.session.one(RETRY, batch, batch, keys[run]) == 1
    assert one.finish(held[one]) == 1
    assert db.main.one("select pgq.maint_retry_events()") == 2
    db.main.tick()
    held[one] = one.take()
    assert db.main.one(SET, 7, "extra1") == 1
    insert(db.main, 2)
    db.main.tick()
    seen = finish_all({other: held[other]})
    seen += other.drain()
    seen += finish_all({one: held[one]})
    seen += one.drain()
    retried = [key for key, data in seen if key in keys.values() and data == "001"]
    assert sorted(retried) == sorted([*keys.values(), keys[other]]), "one's first is finished"
    assert len([data for _, data in seen if data == "002"]) == 20


def test_lanes_changed_between_look_and_lock_are_left(db: Database) -> None:
    one, other = runs(db, lanes=1)
    insert(db.main, 1)
    db.main.tick()
    with held_look(db, one) as gate:
        late = one.take_later()
        gate.wait_for_arrival()
        assert db.main.one(SET, 2, "extra1") == 1
        assert db.main.one(STOP) == 1
        gate.open()
        assert late.result(timeout=30) is None
    found = other.drain()
    assert len(found + one.drain()) == 20


def test_lanes_that_are_gone_between_look_and_lock_are_left(db: Database) -> None:
    one, other = runs(db, lanes=1)
    insert(db.main, 1)
    db.main.tick()
    with held_look(db, one) as gate:
        late = one.take_later()
        gate.wait_for_arrival()
        assert db.main.one(SET, 2, "extra1") == 1
        assert len(other.drain()) == 20
        gate.open()
        assert late.result(timeout=30) is None
    assert db.main.one(LANES) == 2


def test_end_of_the_old_lanes_waits_for_no_lock(db: Database) -> None:
    one, other = runs(db)
    insert(db.main, 1)
    db.main.tick()
    found = one.drain()
    one.session.run("set lock_timeout = '1s'")
    assert db.main.one(SET, 3, "extra1") == 1
    db.main.one(INSERT, "002", "key 1")
    db.main.tick()
    other.session.begin()
    other.session.one("select pgq.register_consumer_at('q', 'c', 2)")
    assert one.take() is None
    other.session.rollback()
    assert one.drain() == [("key 1", "002")]
    assert len(found) == 20


def test_run_that_finishes_beside_a_change_does_not_deadlock(db: Database) -> None:
    one, admin = runs(db)
    insert(db.main, 1)
    db.main.tick()
    batch = one.take()
    one.session.begin()
    one.finish(batch)
    change = admin.session.later(SET, 3, "extra1")
    wait_until_blocked(db.main.connection, admin.session.pid)
    next_one = one.take()
    one.session.commit()
    assert change.result(timeout=30) == 1
    if next_one is not None:
        assert one.finish(next_one) == 1
    one.drain()
    assert db.main.one(LANES) == 3


def test_change_waits_for_a_claim_and_counts_it(db: Database) -> None:
    one, admin = runs(db, lanes=1)
    insert(db.main, 1)
    db.main.tick()
    one.session.begin()
    batch = one.take()
    change = admin.session.later(SET, 3, "extra1")
    wait_until_blocked(db.main.connection, admin.session.pid)
    one.session.commit()
    assert change.result(timeout=30) == 1
    assert db.main.one(STOP) == 2
    with refused("PQ021"):
        db.main.one(SET, 4, "extra1")
    assert one.finish(batch) == 1


def test_change_that_waits_for_a_lane_keeps_no_other_from_going_on(db: Database) -> None:
    one, other, admin = runs(db, 3)
    insert(db.main, 1)
    db.main.tick()
    one.session.begin()
    one.session.one(f"select sub_id from ({LAST_LANE}) last")
    change = admin.session.later(SET, 3, "extra1")
    wait_until_blocked(db.main.connection, admin.session.pid)
    for _ in range(3):
        assert eventually(other.take_and_read, 5), "the change releases the other lanes to wait"
    one.session.commit()
    assert change.result(timeout=30) == 1


def test_last_old_lane_and_the_first_new_one_are_one_call(db: Database) -> None:
    (run,) = runs(db, 1)
    db.main.one(INSERT, "001", "key 1")
    db.main.tick()
    assert len(run.drain()) == 1
    assert db.main.one(SET, 3, "extra1") == 1
    db.main.one(INSERT, "002", "key 1")
    db.main.tick()
    assert db.main.one(LANES) == 7
    assert run.take_and_read() == [("key 1", "002")], "three old lanes were behind, without events"
    assert db.main.one(LANES) == 3


def test_parked_batch_of_an_old_lane_keeps_the_change_open(db: Database) -> None:
    (run,) = runs(db, 1, lanes=1)
    db.main.one(INSERT, "001", "key 1")
    db.main.tick()
    batch = run.take()
    event = run.session.events(batch)[0]
    park = "select pgq.event_park(%s, array[%s::bigint], array[%s::bigint], '{k}', '{0 s}')"
    assert db.main.one(park, batch, event.id, event.txid) == 1
    assert run.finish(batch) == 1
    parked = db.main.one("select batch_id from pgq.take_parked_lane('q', 'c', %s, 1)", run.holder)
    assert db.main.one(SET, 3, "extra1") == 1
    with refused("PQ021"):
        db.main.one(SET, 4, "extra1")
    assert run.take() == parked
    assert run.finish(parked) == 1
    assert db.main.one(SET, 4, "extra1") == 1
