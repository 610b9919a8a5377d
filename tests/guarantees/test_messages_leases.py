"""Several leases: finished in one call, and their subconsumers, which nobody waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.receivers import add, data, done, drain, end, filled, receive
from tests.guarantees.sessions import RR, refused
from tests.guarantees.workers import SLOWEST, Worker
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


def test_extension_that_a_snapshot_does_not_see_is_kept(db: Database) -> None:
    filled(db, "ab")
    one, other = db.open(), db.open()
    leased = receive(one)
    end(db, leased)
    one.begin(RR)
    assert other.one("select pgq.touch_batch(%s, '1 hour')", leased[0].batch) == 1
    with refused("40001"):
        done(one, leased[0])
    one.rollback()
    assert receive(other) == []
    assert done(one, *leased) == 1


def test_range_of_a_dead_worker_goes_to_receivers(db: Database) -> None:
    filled(db, "abc")
    worker = Worker(db.open(), "1", "host:1:x").lock()
    batch = worker.take()
    assert receive(db.main) == []
    worker.session.connection.execute("select pg_advisory_unlock_all()")
    first = receive(db.main, 2)
    assert data(first) == ["a", "b"]
    assert worker.finish(batch) == 0
    rest = worker.take()
    assert worker.data(rest) == ["c"]
    assert [worker.finish(rest), done(db.main, *first)] == [1, 1]
    assert worker.take() is None


def test_event_that_a_receiver_leased_is_not_counted_against_the_next_one(db: Database) -> None:
    filled(db, "abc")
    Worker(db.open(), "1", "host:1:x").take()
    db.main.connection.execute(
        "update pgq.position set pos_part = 1, pos_tries = 1, pos_died = '{host:1:w}'"
    )
    assert data(receive(db.main, 1)) == ["a"]
    state = "select part_size, tries, died from pgq.take_part('q', 'c', '1', 'host:1:y')"
    assert db.main.all(state) == [(1, None, None)]


def test_workers_take_ended_leases_and_leftovers(db: Database) -> None:
    filled(db, "abcd")
    worker = Worker(db.open(), "1", "host:1:x").lock()
    leased = receive(db.main, 3)
    assert done(db.main, leased[1]) == 1
    rest = worker.take()
    assert worker.data(rest) == ["d"]
    assert worker.finish(rest) == 1
    assert worker.take() is None
    end(db, leased)
    again = receive(db.main)
    assert [each.attempt for each in again] == [2, 2]
    end(db, again)
    state = "select batch_id, part_size, tries from pgq.take_part('q', 'c', '1', 'host:1:x')"
    ((taken, part_size, tries),) = worker.session.all(state)
    assert (part_size, tries) == (None, None), "an end of a lease is no crash of a run"
    assert worker.data(taken) == ["a", "c"]
    assert worker.session.one("select pgq.finish_part(%s, %s)", taken, leased[0].id) == 1
    assert worker.data(taken) == ["c"]
    assert worker.session.one("select pgq.end_run('q', 'c.1', 'host:1:x')") == 1
    assert data(receive(db.main)) == ["c"]


def test_receivers_go_on_with_the_parts_of_a_cut_range(db: Database) -> None:
    filled(db, "abcdefgh")
    worker = Worker(db.open(), "1", "host:1:x").lock()
    cut = "select batch_id from pgq.take_part('q', 'c', '1', 'host:1:x', i_wanted => 2)"
    batch = worker.session.one(cut)
    assert worker.data(batch) == ["a", "b", "c", "d"]
    one, other = db.open(), db.open()
    leased = receive(one, 1)
    assert data(leased) == ["e"]
    assert drain(other) == ["f", "g", "h"]
    assert [worker.finish(batch), done(one, *leased)] == [1, 1]
    add(db, "i")
    assert drain(one) == ["i"]
    assert db.main.one(SLOWEST) == db.main.one("select max(tick_id) from pgq.get_tick_info('q')")
