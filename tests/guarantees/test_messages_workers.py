"""Messages beside workers of the same consumer: each takes over what the other left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.guarantees.receivers import add, data, done, drain, end, filled, receive
from tests.guarantees.workers import SLOWEST, Worker

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database


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


def test_dead_worker_that_comes_back_has_no_lease_of_a_receiver(db: Database) -> None:
    filled(db, "a")
    worker = Worker(db.open(), "1", "host:1:x")
    batch = worker.take()
    leased = receive(db.main)
    assert data(leased) == ["a"]
    assert worker.take() is None
    assert worker.finish(batch) == 0
    assert done(db.main, *leased) == 1


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
    assert (part_size, tries) == (None, None), "an end of a lease is no unclean end of a run"
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
    assert db.main.one(SLOWEST) == db.main.one("select max(tick_id) from pgq.tick")
