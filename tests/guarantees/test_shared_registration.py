"""Shared consumers: registrations, modes and removals beside workers that take ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.guarantees.sessions import refused
from tests.guarantees.workers import workers
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tests.guarantees.sessions import Database, Session

PLAIN = "select pgq.set_consumer_mode('q', 'c', 'plain')"
REMOVE = "unregister_subconsumer('q', 'c', '1', 0)"
DROP = "unregister_subconsumer('q', 'c', '1', 1)"
UNREGISTER = "unregister_consumer('q', 'c.1')"


def expect_refusal(call: Future[object], sqlstate: str) -> None:
    """Wait for a call in the background that is refused."""
    with pytest.raises(psycopg.Error) as failed:
        call.result(timeout=30)
    assert failed.value.sqlstate == sqlstate


def wait(db: Database, session: Session) -> None:
    """Wait until a session waits for a lock."""
    wait_until_blocked(db.main.connection, session.pid)


def test_events_of_a_batch_that_the_consumer_has_open_go_to_nobody_else(db: Database) -> None:
    (one,) = workers(db, "ab", 1)
    batch = db.main.next()
    with refused("PQ021"):
        one.take()
    assert db.main.data(batch) == ["a"]
    assert db.main.finish(batch) == 1
    assert one.data(one.take()) == ["b"]


def test_consumer_that_was_shared_once_is_not_read_as_a_whole(db: Database) -> None:
    (one,) = workers(db, "ab", 1)
    one.take()
    with refused("PQ020"):
        db.main.next()


def test_mode_that_changes_meanwhile_is_seen(db: Database) -> None:
    (one,) = workers(db, "a", 1)
    admin = db.open()
    admin.begin()
    assert admin.one(PLAIN) == 1
    late = one.take_later()
    wait(db, one.session)
    admin.commit()
    expect_refusal(late, "PQ020")
    assert db.main.drain() == ["a"]


def test_mode_does_not_change_beside_a_range_that_is_being_taken(db: Database) -> None:
    (one,) = workers(db, "a", 1)
    admin = db.open()
    one.session.begin()
    assert one.data(one.take()) == ["a"]
    late = admin.later(PLAIN)
    wait(db, admin)
    one.session.commit()
    expect_refusal(late, "PQ021")


@pytest.mark.parametrize("call", [REMOVE, UNREGISTER])
def test_worker_is_not_removed_with_its_range(db: Database, call: str) -> None:
    (one,) = workers(db, "a", 1)
    admin = db.open()
    one.session.begin()
    batch = one.take()
    late = admin.later(f"select pgq.{call}")
    wait(db, admin)
    one.session.commit()
    expect_refusal(late, "PQ021")
    assert one.data(batch) == ["a"]
    assert one.finish(batch) == 1
    assert admin.one(f"select pgq.{call}") == 1


@pytest.mark.parametrize("call", [REMOVE, DROP, UNREGISTER])
def test_idle_worker_is_not_removed(db: Database, call: str) -> None:
    (one,) = workers(db, "", 1)
    one.lock()
    with refused("PQ021"):
        db.main.one(f"select pgq.{call}")
    db.main.tick_after("a")
    assert one.drain() == ["a"]
    one.session.one("select pg_advisory_unlock_all()::text")
    assert db.main.one(f"select pgq.{call}") == 1


def test_worker_takes_over_from_workers_of_its_own_consumer_only(db: Database) -> None:
    (one,) = workers(db, "", 1)
    db.main.one("select pgq.register_subconsumer('q', 'other', '1')")
    db.main.tick_after("a")
    taken = db.main.one("select batch_id from pgq.take_part('q', 'other', '1', 'host:9:x')")
    assert one.drain() == ["a"]
    assert db.main.data(taken) == ["a"]
    assert db.main.finish(taken) == 1


def test_consumer_with_the_name_of_a_worker_is_none(db: Database) -> None:
    db.queue(consumers=("c", "c.1"))
    with refused("PQ009"):
        db.main.one("select pgq.register_subconsumer('q', 'c', '1')")
    db.main.tick_after("a")
    with refused("PQ002"):
        db.main.one("select pgq.take_part('q', 'c', '1', 'host:1:x')")
    assert db.main.drain("c.1") == db.main.drain("c") == ["a"]


def test_worker_that_is_registered_already_is_not_waited_for(db: Database) -> None:
    (one,) = workers(db, "a", 1)
    one.session.begin()
    assert one.session.one("select pgq.end_run('q', 'c.1', 'nobody')") == 0
    db.main.run("set lock_timeout = '1s'")
    assert db.main.one("select pgq.register_subconsumer('q', 'c', '1')") == 0


def test_dead_worker_is_looked_at_again_when_it_is_locked(db: Database) -> None:
    """The first look takes no lock. Meanwhile one dead worker finishes; another one is at it."""
    one, other, third = workers(db, "abc", 3)
    finished, finishing = one.lock().take(), other.lock().take()
    for worker in (one, other):
        worker.session.one("select pg_advisory_unlock_all()::text")
    third.session.run("set lock_timeout = '5s'")
    db.main.begin()
    db.main.one("select sub_id from pgq.registration where sub_parent is null for no key update")
    taking = third.take_later()
    wait(db, third.session)
    assert one.finish(finished) == 1
    other.session.begin()
    assert other.finish(finishing) == 1
    db.main.commit()
    assert third.data(taking.result(timeout=30)) == ["c"]
    other.session.commit()


def test_token_that_is_shown_late_leaves_the_range(db: Database) -> None:
    (one,) = workers(db, "a", 1)
    batch = one.take()
    db.main.one(
        "select pgq.show_holder(sub_id, 'late')::text from pgq.registration"
        " where sub_parent is not null"
    )
    assert one.data(batch) == ["a"]


def test_idle_worker_writes_its_token_once_and_a_busy_one_no_mode(db: Database) -> None:
    one, other = workers(db, "")
    rows = "select count(*) from pgq.position"
    updates = "select sum(n_tup_upd) from pg_stat_xact_user_tables where relname = 'registration'"
    assert one.take() is None
    before = db.main.one(rows)
    assert [one.take() for _ in range(3)] == [None] * 3
    assert db.main.one(rows) == before
    for worker, written in ((one, 1), (other, 0)):
        db.main.tick_after("a")
        worker.session.begin()
        assert worker.finish(worker.take()) == 1
        assert worker.session.one(updates) == written
        worker.session.commit()


def test_rolled_back_event_reaches_no_worker(db: Database) -> None:
    (one,) = workers(db, "", 1)
    writer = db.open()
    writer.begin()
    for each in ("kept", "kept too"):
        writer.insert(each)
    writer.run("savepoint one")
    writer.insert("never")
    db.main.tick()
    writer.run("rollback to one")
    writer.insert("at last")
    writer.commit()
    db.main.tick()
    part = "select batch_id from pgq.take_part('q', 'c', '1', 'host:1:x', i_wanted => 2)"
    found = []
    while (batch := one.session.one(part)) is not None:
        found += one.data(batch)
        assert one.finish(batch) == 1
    assert found == ["kept", "kept too", "at last"]
