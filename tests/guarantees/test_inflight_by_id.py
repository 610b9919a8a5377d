"""Events in flight by their ids, without a claim: due later, skipped, done, kept."""

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
    follow,
    insert,
    receive,
    shared,
)
from tests.guarantees.sessions import RR, refused

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

BULK = "insert into pgq.event_1_0 (ev_type, ev_data) select 't', g from generate_series(1, {}) g"
DUE = "select pgq.set_due('q', 's', %s, now() + %s::interval)"
FINISH = "select pgq.finish_event('q', 's', %s, %s)"
SKIP = "select state from pgq.skip_event('q', 's', array[%s::bigint])"
KEPT = "select ev_data from pgq.get_kept_events('q', 's', %s, %s)"
SWEEP = "update pgq.front set front_swept = '-infinity', front_looked = '-infinity'"


def ids(db: Database) -> dict[str, int]:
    """Return the id of each event."""
    return dict(db.main.all("select ev_data, ev_id from pgq.event_1"))


def test_event_is_delayed_by_its_id(db: Database) -> None:
    shared(db, "a", "b", "c")
    first = receive(db.main, 3)
    assert call(db.main, "release", first) == 3
    assert db.main.one(DUE, ids(db)["b"], "1 hour") == 1
    assert drain(db.main) == ["a", "c"]
    db.main.run("update pgq.front set front_due = now() - interval '3 s', front_looked = now()")
    assert db.main.one(DUE, ids(db)["b"], "-1 hour") == 1
    assert [(each.data, each.attempts) for each in receive(db.main)] == [("b", 1)]
    assert db.main.one(DUE, ids(db)["a"], "1 hour") == 0


def test_event_that_nobody_has_looked_for_is_delayed(db: Database) -> None:
    shared(db, "a", "b")
    assert db.main.one(DUE, ids(db)["a"], "1 hour") == 1
    assert drain(db.main) == ["b"]
    db.main.run(SOON)
    assert drain(db.main) == ["a"]


@pytest.mark.parametrize("limit", [1, 3])
def test_delayed_event_gives_up_its_place_in_its_key(db: Database, limit: int) -> None:
    shared(db, "a1", "a2", "a3", "b1", key="extra1")
    claimed = receive(db.main, limit)
    assert call(db.main, "release", claimed) == limit
    assert db.main.one(DUE, ids(db)["a1"], "1 hour") == 1
    assert sorted(drain(db.main, 1)) == ["a2", "a3", "b1"]
    insert(db.main, "a4")
    assert drain(db.main) == ["a4"]
    db.main.run(SOON)
    assert drain(db.main) == ["a1"]


def test_event_that_failed_keeps_its_key_when_it_is_due_now(db: Database) -> None:
    shared(db, "a1", "a2", key="extra1")
    assert call(db.main, "retry", receive(db.main), "1 hour") == 1
    assert receive(db.main) == []
    assert db.main.one(DUE, ids(db)["a1"], "0") == 1
    db.main.run(SWEEP)
    assert drain(db.main) == ["a1", "a2"]


def test_delayed_event_of_a_limited_key_waits_for_a_slot(db: Database) -> None:
    shared(db, key="extra1")
    db.main.one("select pgq.set_consumer_limits('q', 's', 2)")
    insert(db.main, "a1", "a2", "a3", "a4")
    assert db.main.one(DUE, ids(db)["a1"], "1 hour") == 1
    held = receive(db.main), receive(db.main)
    assert receive(db.main) == []
    db.main.run(SOON)
    db.main.run(SWEEP)
    assert receive(db.main) == []
    assert done(db.main, held[0]) == 1
    assert data(receive(db.main)) == ["a1"]


@pytest.mark.parametrize("held", [False, True])
def test_lease_of_a_claimed_event_ends_when_it_is_due(db: Database, held: bool) -> None:
    shared(db, "a", "b", "c")
    holder = db.main.one("select pgq.hold('q', 's', 'h:1')") if held else None
    claimed = receive(db.main, 3, holder=holder)
    assert db.main.one(DUE, ids(db)["b"], "1 hour") == 1
    if held:
        db.open().one("select pgq.hold('q', 's', 'h:2')")
        assert db.main.one("select pgq.renew(%s)", holder) == 2  # processes
    assert receive(db.open()) == []
    assert db.main.one(DUE, ids(db)["b"], "0") == 1
    again = receive(db.open())
    assert [(each.data, each.attempts) for each in again] == [("b", 2)]
    assert db.main.one("select count(*) from pgq.inflight where run_part > 0") == 0
    assert done(db.main, claimed) == 2
    assert done(db.main, again) == 1


def test_event_that_is_claimed_meanwhile_has_its_lease_set(db: Database) -> None:
    shared(db, "a", "b", "c")
    assert call(db.main, "release", receive(db.main, 3)) == 3
    one = db.open()
    one.begin()
    claimed = receive(one, 1)
    assert db.main.one(DUE, claimed[0].id, "1 hour") == 0  # nobody is waited for
    one.commit()
    assert db.main.one(DUE, claimed[0].id, "1 hour") == 1
    assert done(db.main, claimed) == 1


def test_event_is_done_by_its_id(db: Database) -> None:
    shared(db, "a", "b", "c", "d")
    claimed = receive(db.main, 3)
    assert call(db.main, "retry", claimed[2:], "1 hour") == 1
    for name in "abcd":
        assert db.main.one(FINISH, ids(db)[name], False) == 1
        assert db.main.one(FINISH, ids(db)[name], False) == 0
    assert db.main.one("select count(*) from pgq.inflight") == 0
    assert drain(db.main) == []
    assert done(db.main, claimed[:2]) == 0
    assert db.main.all(KEPT, None, None) == []


def test_event_is_dead_by_its_id(db: Database) -> None:
    shared(db, "a1", "a2", "b1", key="extra1")
    (claimed,) = receive(db.main)
    bury = "select pgq.bury_event('q', 's', %s, 'no use')"
    assert [db.main.one(bury, claimed.id + more) for more in (0, 2, 99)] == [1, 1, 0]
    assert done(db.main, [claimed]) == 0
    dead = db.main.all("select ev_data, dead_tries, dead_reason from pgq.dead_event order by 1")
    assert dead == [("a1", 1, "no use"), ("b1", 0, "no use")]
    assert data(receive(db.main, 9)) == ["a2"]


def test_claim_keeps_its_other_events(db: Database) -> None:
    shared(db, "a1", "a2", "a3", "b1", key="extra1")
    claimed = receive(db.main, 3)
    assert data(claimed) == ["a1", "a2", "a3"]
    assert db.main.one(FINISH, ids(db)["a2"], False) == 1
    assert done(db.main, claimed) == 2
    assert drain(db.main) == ["b1"]


def test_end_by_id_lets_the_next_of_the_key_go_on(db: Database) -> None:
    shared(db, "a1", "a2", key="extra1")
    receive(db.main)
    assert db.main.one(FINISH, ids(db)["a1"], False) == 1
    assert drain(db.main) == ["a2"]


def test_event_that_a_handler_ends_is_left_to_it(db: Database) -> None:
    shared(db, "a", "b")
    claimed = receive(db.main)
    one = db.open()
    one.begin()
    assert done(one, claimed) == 1
    assert db.main.one(FINISH, claimed[0].id, True) == 0
    assert db.main.one(SKIP, claimed[0].id) == "delivered"
    one.commit()
    assert db.main.all(KEPT, None, None) == []


@pytest.mark.parametrize("copied", [False, True])
def test_events_are_kept_until_they_are_deleted(db: Database, copied: bool) -> None:
    shared(db, "a", "b", "c")
    names = ids(db)
    claimed = receive(db.main, 3)
    if copied:
        for table in (1, 2, 0):
            follow(db)
            assert db.main.rotate() == table
    for name in "abc":
        assert db.main.one(FINISH, names[name], True) == 1
    assert db.main.all(KEPT, None, None) == [("a",), ("b",), ("c",)]
    assert db.main.all(KEPT, 1, names["a"]) == [("b",)]
    assert done(db.main, claimed) == 0
    query = "select pgq.delete_kept_events('q', 's', %s)"
    assert db.main.one(query, [names["a"], 77]) == 1
    assert db.main.one(query, None) == 2
    assert db.main.all(KEPT, None, None) == []


def test_kept_events_go_with_their_consumer(db: Database) -> None:
    shared(db, "a")
    assert db.main.one(FINISH, ids(db)["a"], True) == 1
    db.main.one("select pgq.drop_queue('q', true)")
    assert db.main.one("select count(*) from pgq.kept_event") == 0


def test_claimed_event_is_skipped_and_its_handler_loses_it(db: Database) -> None:
    shared(db, "a", "b", "c")
    claimed = receive(db.main, 2)
    assert db.main.one(SKIP, claimed[0].id) == "cancelled"
    assert done(db.main, claimed) == 1
    assert drain(db.main) == ["c"]
    cancel = "select state from pgq.cancel_event('q', array[%s::bigint])"
    insert(db.main, "d")
    claimed = receive(db.main)
    assert db.main.one(cancel, claimed[0].id) == "delivered"
    assert done(db.main, claimed) == 1


def test_event_whose_table_was_truncated_is_skipped(db: Database) -> None:
    shared(db, "a")
    claimed = receive(db.main)
    for table in (1, 2, 0):
        follow(db)
        assert db.main.rotate() == table
    assert db.main.one(SKIP, claimed[0].id) == "cancelled"
    end_lease(db, claimed)
    assert drain(db.main) == []


def test_delayed_event_comes_when_the_consumer_is_plain(db: Database) -> None:
    shared(db, "a", "b")
    assert db.main.one(DUE, ids(db)["a"], "1 hour") == 1
    assert db.main.one("select pgq.set_consumer_mode('q', 's', 'plain')") == 1
    assert db.main.deliver("s") == ["b"]
    waits = "select ev_data, ev_retry, ev_retry_after > now() from pgq.retry_queue"
    assert db.main.all(waits) == [("a", 0, True)]


@pytest.mark.parametrize(
    ("code", "query"),
    [
        ("PQ009", "set_due('q', 's', 1, null)"),
        ("PQ009", "set_due('q', 's', 1, 'infinity')"),
        ("PQ020", "set_due('q', 'c', 1, now())"),
        ("PQ020", "finish_event('q', 'c', 1)"),
        ("PQ002", "finish_event('q', 'x', 1)"),
        ("PQ002", "get_kept_events('q', 'x')"),
        ("PQ002", "delete_kept_events('q', 'x', null)"),
        ("PQ020", "get_waiting_keys('q', 'c')"),
    ],
)
def test_calls_by_id_that_cannot_be_meant_are_refused(db: Database, code: str, query: str) -> None:
    shared(db, "a")
    db.main.one("select pgq.register_consumer('q', 'c')")
    with refused(code):
        db.main.one(f"select pgq.{query}")


@pytest.mark.parametrize("query", [DUE.replace("%s::", "'1 s'::"), FINISH.replace(", %s)", ")")])
def test_calls_by_id_need_read_committed(db: Database, query: str) -> None:
    shared(db, "a")
    db.main.begin(RR)
    with refused("PQ013"):
        db.main.one(query, 1)


def test_event_of_a_piece_is_not_in_flight(db: Database) -> None:
    shared(db)
    db.main.run(BULK.format(5000))
    receive(db.main)
    last = db.main.one("select max(ev_id) from pgq.event_1")
    assert db.main.one(FINISH, last, True) == 0
    assert db.main.one(DUE, last, "1 hour") == 0
