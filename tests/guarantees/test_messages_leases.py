"""Several leases: finished in one call, and their subconsumers, which nobody waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.receivers import add, data, done, drain, end, filled, receive
from tests.guarantees.sessions import RR, SERIALIZABLE, refused
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.guarantees.receivers import Leased
    from tests.guarantees.sessions import Database

DONE = "select * from pgq.finish_events(%s::bigint[], %s::bigint[])"
LOCK = """
    select sub_id from pgq.registration
     where sub_id = (select pos_sub from pgq.position where pos_batch = %s limit 1) for update
"""


def ids(*leased: Leased) -> tuple[list[int], list[int]]:
    return [each.batch for each in leased], [each.id for each in leased]


def test_events_of_several_leases_are_finished_at_once(db: Database) -> None:
    filled(db, "abcde")
    first, second = receive(db.main, 2), receive(db.main, 2)
    assert db.main.all(DONE, *ids(first[0], *second, first[1])) == []
    assert drain(db.main) == ["e"]


def test_leases_that_are_lost_are_named_and_the_others_are_finished(db: Database) -> None:
    filled(db, "abcd")
    first, second = receive(db.main, 2), receive(db.main, 2)
    end(db, first)
    taken = receive(db.open(), 2)
    assert data(taken) == ["a", "b"]
    assert db.main.all(DONE, *ids(*first, *second)) == [(first[0].batch,)]
    assert db.main.all(DONE, *ids(*taken)) == []
    assert receive(db.main) == []


def test_one_event_that_is_finished_twice_fails_for_all(db: Database) -> None:
    filled(db, "abcd")
    first, second = receive(db.main, 2), receive(db.main, 2)
    assert db.main.all(DONE, *ids(first[0])) == []
    with refused("PQ004"):
        db.main.all(DONE, *ids(first[0], *second))
    assert db.main.all(DONE, *ids(first[1], *second)) == []
    assert receive(db.main) == []


@pytest.mark.parametrize(
    ("batches", "events"), [([1], []), ([1], [1, 2]), (None, [1]), ([1], None), (None, None)]
)
def test_lists_of_different_lengths_are_refused(
    db: Database, batches: list[int] | None, events: list[int] | None
) -> None:
    filled(db)
    with refused("PQ009"):
        db.main.all(DONE, batches, events)


def test_leases_are_locked_in_the_order_in_which_a_consumer_leaves(db: Database) -> None:
    filled(db, "abcd")
    one, other, administrator = db.open(), db.open(), db.open()
    first, second = receive(one, 2), receive(one, 1)
    end(db, first)
    first = receive(one, 2)  # in the first subconsumer again, but with the newest batch id
    assert first[0].batch > second[0].batch
    administrator.begin()
    administrator.one(LOCK, second[0].batch)
    waiting = one.later("select count(*) from pgq.finish_events(%s, %s)", *ids(*second, *first))
    wait_until_blocked(db.main.connection, one.pid)
    other.begin()
    with refused("55P03"):
        other.one(LOCK + " nowait", first[0].batch)
    administrator.rollback()
    assert waiting.result(timeout=30) == 0


def test_subconsumer_that_is_locked_is_skipped_though_one_before_it_was_removed(
    db: Database,
) -> None:
    filled(db, "a")
    first = receive(db.main)
    add(db, "b")
    second = receive(db.main)
    assert done(db.main, *first) == 1
    assert db.main.one("select pgq.unregister_subconsumer('q', 'c', 'receive-1', 0)") == 1
    add(db, "c")
    one, other = db.open(), db.open()
    one.begin()
    assert done(one, *second) == 1
    other.run("set lock_timeout = '1s'")
    assert data(receive(other)) == ["c"]
    one.commit()
    workers = db.main.all("select worker, messages from pgq.get_worker_info('q', 'c') offset 1")
    assert workers == [("receive-1", 1), ("receive-2", None)]


@pytest.mark.parametrize("isolation", [RR, SERIALIZABLE])
def test_extension_that_a_snapshot_does_not_see_is_kept(db: Database, isolation: str) -> None:
    filled(db, "ab")
    one, other = db.open(), db.open()
    leased = receive(one)
    end(db, leased)
    one.begin(isolation)
    assert other.one("select pgq.touch_batch(%s, '1 hour')", leased[0].batch) == 1
    with refused("40001"):
        done(one, leased[0])
    one.rollback()
    assert receive(other) == []
    assert done(one, *leased) == 1
