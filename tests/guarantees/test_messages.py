"""Messages: an event has one lease at a time, and what is not done goes to another receiver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.receivers import add, data, done, drain, end, filled, receive
from tests.guarantees.sessions import RR, refused
from tests.guarantees.workers import SLOWEST
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

LATER = "select count(*) from pgq.lease_batch('q', 'c', 2, '1 minute')"


def test_receivers_share_a_range_without_overlap(db: Database) -> None:
    filled(db, "abcde")
    one, other = db.open(), db.open()
    first, second, third = receive(one, 2), receive(other, 2), receive(one, 2)
    assert [data(each) for each in (first, second, third)] == [["a", "b"], ["c", "d"], ["e"]]
    assert receive(other) == []
    assert [done(one, *first), done(other, *second), done(one, *third)] == [1, 1, 1]
    add(db, "f")
    assert drain(other) == ["f"]


def test_receivers_that_ask_at_once_get_different_events(db: Database) -> None:
    filled(db, "abc")
    one, other = db.open(), db.open()
    assert db.main.one("select pgq.set_consumer_mode('q', 'c', 'shared')") == 1
    one.begin()
    assert data(receive(one, 2)) == ["a", "b"]
    waiting = other.later(LATER)
    wait_until_blocked(db.main.connection, other.pid)
    one.commit()
    assert waiting.result(timeout=30) == 1


def test_ended_lease_goes_on_with_what_is_not_done(db: Database) -> None:
    filled(db, "abcd")
    one, other = db.open(), db.open()
    leased = receive(one)
    assert done(one, leased[2]) == 1
    assert receive(other) == []
    end(db, leased)
    taken = receive(other, 2)
    assert [(each.data, each.attempt) for each in taken] == [("a", 2), ("b", 2)]
    assert done(one, leased[0]) == 0
    assert done(one, leased[3]) == 0
    rest = receive(other)
    assert [(each.data, each.attempt) for each in rest] == [("d", 2)]
    assert [done(other, *taken), done(other, *rest)] == [1, 1]
    assert receive(one) == []


def test_late_receiver_changes_nothing(db: Database) -> None:
    filled(db, "a")
    one, other = db.open(), db.open()
    leased = receive(one)
    end(db, leased)
    taken = receive(other)
    assert data(taken) == ["a"]
    assert done(one, *leased) == 0
    assert one.one("select pgq.touch_batch(%s, '1 hour')", leased[0].batch) == 0
    retry = "select pgq.event_retry(%s, array[%s], array[%s], '{0}')"
    with refused("PQ003"):
        one.one(retry, leased[0].batch, leased[0].id, leased[0].txid)
    assert done(other, *taken) == 1


def test_lease_that_nobody_took_is_finished_late(db: Database) -> None:
    filled(db, "a")
    leased = receive(db.main)
    end(db, leased)
    assert done(db.main, *leased) == 1
    assert receive(db.main) == []


def test_extended_lease_is_not_taken(db: Database) -> None:
    filled(db, "a")
    leased = receive(db.main)
    end(db, leased)
    for length in ("1 hour", "1 second"):
        assert db.main.one("select pgq.touch_batch(%s, %s)", leased[0].batch, length) == 1
    assert db.main.one("select max(pos_until) > now() + interval '30 minutes' from pgq.position")
    assert receive(db.open()) == []


def test_late_receiver_with_an_old_snapshot_changes_nothing(db: Database) -> None:
    filled(db, "ab")
    one, other = db.open(), db.open()
    leased = receive(one)
    one.begin(RR)
    end(db, leased)
    taken = receive(other)
    with refused("40001"):
        done(one, leased[0])
    one.rollback()
    assert done(other, *taken) == 1


def test_effect_of_a_message_happens_once(db: Database) -> None:
    filled(db, "a")
    db.main.run("create table effect (data text)")
    one, other = db.open(), db.open()
    leased = receive(one)
    one.begin()
    one.run("insert into effect values ('a')")
    end(db, leased)
    taken = receive(other)
    other.begin()
    other.run("insert into effect values ('a')")
    assert done(other, *taken) == 1
    other.commit()
    assert done(one, *leased) == 0
    one.rollback()
    assert db.main.all("select data from effect") == [("a",)]


@pytest.mark.parametrize("last", [False, True])
def test_done_that_was_rolled_back_was_not_done(db: Database, *, last: bool) -> None:
    filled(db, "ab")
    leased = receive(db.main)
    if last:
        assert done(db.main, leased[1]) == 1
    db.main.begin()
    assert done(db.main, leased[0]) == 1
    db.main.rollback()
    assert done(db.main, leased[0]) == 1
    end(db, leased)
    assert drain(db.main) == ([] if last else ["b"])


def test_lease_that_is_being_finished_is_not_taken_over_and_stops_no_other(db: Database) -> None:
    filled(db, "ab")
    one, other = db.open(), db.open()
    leased = receive(one)
    add(db, "cd")
    assert data(receive(other, 1)) == ["c"]
    end(db, leased)
    one.begin()
    assert done(one, leased[0]) == 1
    other.run("set lock_timeout = '1s'")
    assert data(receive(other, 1)) == ["d"]
    assert receive(other) == []
    one.commit()
    assert data(receive(other)) == ["b"]


def test_event_is_finished_once(db: Database) -> None:
    filled(db, "ab")
    a, b = receive(db.main)
    assert done(db.main, a) == 1
    with refused("PQ004"):
        done(db.main, a)
    with refused("PQ004"):
        db.main.one("select pgq.finish_events(%s, array[99])", b.batch)
    assert done(db.main, b) == 1
    assert done(db.main, b) == 0


def test_leases_hold_their_events_against_rotation(db: Database) -> None:
    filled(db, "ab", "c")
    one, other = db.open(), db.open()
    leased = receive(one, 1)
    assert data(leased) == ["a"]
    assert drain(other) == ["b", "c"]
    add(db, "d")
    assert drain(other) == ["d"]
    for _ in range(4):
        db.main.rotate()
    db.main.one("select pgq.maint_ticks('q')")
    assert db.main.one(SLOWEST) < db.main.one("select max(tick_id) from pgq.get_tick_info('q')")
    end(db, leased)
    assert data(receive(other)) == ["a"]


def test_leftover_holds_its_events_against_rotation(db: Database) -> None:
    filled(db, "ab")
    assert done(db.main, *receive(db.main, 1)) == 1
    for _ in range(4):
        db.main.rotate()
    db.main.one("select pgq.maint_ticks('q')")
    assert drain(db.main) == ["b"]
    assert db.main.one(SLOWEST) == db.main.one("select max(tick_id) from pgq.get_tick_info('q')")


def test_leases_outlive_compaction_and_repair(db: Database) -> None:
    filled(db, "abcd")
    one = db.open()
    leased = receive(one, 3)
    assert done(one, leased[1]) == 1
    db.main.one("select pgq.maint_positions()")
    assert db.main.one("select pgq.compact_positions()")
    assert db.main.one("select pgq.compact_ticks()")
    end(db, leased)  # before the repair, which gives their batch a new id
    assert db.main.one("select pgq.repair_queue('q')") > 0
    assert sorted(drain(one)) == ["a", "c", "d"]


def test_empty_ranges_are_passed_over(db: Database) -> None:
    filled(db, *[""] * 250, "a")
    assert data(receive(db.main)) == ["a"]
    for _ in range(4):
        db.main.tick()
    assert receive(db.main) == []


def test_leases_are_bounded_and_used_again(db: Database) -> None:
    filled(db, "abc")
    assert drain(db.main, 1) == ["a", "b", "c"]
    assert db.main.one("select count(*) from pgq.registration where sub_parent is not null") == 2
    db.main.run(
        "insert into pgq.consumer (co_name)"
        " select 'c.receive-' || n from generate_series(3, 1000) n"
    )
    db.main.run(
        "insert into pgq.registration (sub_queue, sub_consumer, sub_parent)"
        " select sub_queue, n.co_id, sub_id from pgq.registration r"
        " join pgq.consumer c on c.co_id = sub_consumer and c.co_name = 'c',"
        " pgq.consumer n where n.co_name ~ 'receive-' and not exists"
        " (select from pgq.registration where sub_consumer = n.co_id)"
    )
    db.main.run(
        "insert into pgq.position (pos_sub, pos_no, pos_last_tick, pos_next_tick, pos_batch,"
        " pos_until) select sub_id, 10, 1, 2, pgq.new_batch_id(), 'infinity'"
        " from pgq.registration where sub_parent is not null"
    )
    add(db, "d")
    with refused("PQ022"):
        receive(db.main)
