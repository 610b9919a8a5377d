"""A new filter of a consumer: what it holds for, and who may set it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.guarantees.sessions import refused
from tests.guarantees.test_filters import MOVES, RECEIVE, SET, choose, fill, filtered
from tests.guarantees.test_shared_ends import HOUR, UNMOVED
from tests.guarantees.workers import Worker
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tests.guarantees.sessions import Database, Session

ASKING = "select batch_id from pgq.take_part('q', 'c', null, 'run', '1 minute', i_filter => %s)"


def ask(session: Session, *types: str) -> Future[object]:
    """Take a range as a worker with a lease, which handles these types only."""
    return session.later(ASKING, json.dumps({"types": types}))


def test_wider_filter_holds_for_an_open_batch_too(db: Database) -> None:
    filtered(db, "b1+a1")
    batch = db.main.next()
    assert db.main.data(batch) == ["a1"]
    assert choose(db.open(), "a", "b") == 1
    with refused("PQ003"):
        db.main.data(batch)
    assert db.main.finish(batch) == 0, "b1 was never read"
    again = db.main.next()
    assert again != batch
    assert db.main.data(again) == ["b1", "a1"]
    assert db.main.finish(again) == 1


def test_what_is_finished_of_an_open_batch_stays_finished(db: Database) -> None:
    filtered(db, "b1+a1+b2+a2")
    batch = db.main.next()
    ids = [event.id for event in db.main.events(batch)]
    assert db.main.one("select pgq.finish_part(%s, %s)", batch, ids[0]) == 1
    assert choose(db.main) == 1
    assert db.main.data(db.main.next()) == ["b2", "a2"]


def test_new_filter_is_no_progress(db: Database) -> None:
    filtered(db, "a1")
    batch = db.main.next()
    db.main.run(HOUR)
    assert choose(db.main, "a", "b") == 1
    assert db.main.next() != batch
    assert db.main.all(UNMOVED) == [(True,)]


def test_same_filter_changes_nothing(db: Database) -> None:
    filtered(db, "a1")
    batch = db.main.next()
    assert choose(db.main, "a") == 0
    assert db.main.finish(batch) == 1


def test_batch_that_is_opened_waits_for_a_new_filter(db: Database) -> None:
    filtered(db, "b1 a1")
    one, other = db.open(), db.open()
    one.begin()
    assert choose(one, "b") == 1
    opens = other.later("select pgq.next_batch('q', 'c')")
    wait_until_blocked(db.main.connection, other.pid)
    one.commit()
    assert other.data(opens.result(timeout=30)) == ["b1"]


def test_running_worker_keeps_its_filter(db: Database) -> None:
    filtered(db, "a1")
    worker = Worker(db.open(), "1", "host:1:x").lock()
    with refused("PQ021"):
        choose(db.main, "b")
    assert choose(worker.session, "b") == 1, "its own session"


def test_lease_keeps_its_filter(db: Database) -> None:
    filtered(db, "a1")
    assert db.main.one(RECEIVE, 10) == ["a1"]
    with refused("PQ021"):
        choose(db.main, "b")
    db.main.run("update pgq.position set pos_until = now() where pos_until > now()")
    assert choose(db.main, "b") == 1


def test_range_of_a_dead_worker_is_read_with_the_new_filter(db: Database) -> None:
    filtered(db, "b1+a1")
    one = Worker(db.open(), "1", "host:1:x")
    batch = one.take()
    assert one.data(batch) == ["a1"]
    assert choose(db.main, "b") == 1
    assert one.finish(batch) == 0
    assert Worker(db.open(), "2", "host:2:x").lock().drain() == ["b1"]


def test_of_two_workers_with_different_filters_the_second_is_refused(db: Database) -> None:
    filtered(db)
    one, other = (Worker(db.open(), name, f"host:{name}:x") for name in "12")
    one.lock().session.begin()
    assert choose(one.session, "b") == 1
    old = other.lock().session.later(SET, '{"types": ["a"]}')
    wait_until_blocked(db.main.connection, other.session.pid)
    one.session.commit()
    with refused("PQ021"):
        old.result(timeout=30)
    assert choose(other.session, "b") == 0


def test_worker_that_asks_for_other_events_takes_and_passes_over_nothing(db: Database) -> None:
    filtered(db, "a1 b1")
    before = db.main.one(MOVES)
    with pytest.raises(psycopg.Error) as failed:
        ask(db.open(), "b").result(timeout=30)
    assert failed.value.sqlstate == "PQ021"
    both = 'it takes {"types": ["a"]}, the worker asks for {"types": ["b"]}'
    assert failed.value.diag.message_detail == both
    assert db.main.one(MOVES) == before
    assert choose(db.main) == 1
    with refused("PQ021"):
        ask(db.open(), "b").result(timeout=30)
    assert Worker(db.open(), "1", "host:1:x").drain() == ["a1", "b1"]


@pytest.mark.parametrize(("has", "asks"), [(["a", "c"], ["c", "a", "c"]), ([], ["*", "a"])])
def test_worker_may_write_its_filter_in_another_way(
    db: Database, has: list[str], asks: list[str]
) -> None:
    db.queue()
    choose(db.main, *has)
    fill(db, "a1")
    batch = db.main.one(ASKING, json.dumps({"types": asks}))
    assert db.main.data(batch) == ["a1"]


def test_worker_does_not_go_on_with_a_batch_under_another_filter(db: Database) -> None:
    filtered(db, "a1+b1")
    one = db.open()
    ask(one, "a").result(timeout=30)
    db.main.run("update pgq.position set pos_until = now() where pos_until > now()")
    assert choose(db.main, "b") == 1
    with refused("PQ021"):
        ask(one, "a").result(timeout=30)
    assert Worker(db.open(), "1", "host:1:x").drain() == ["b1"]


def test_filter_that_changes_while_a_worker_takes_is_seen(db: Database) -> None:
    filtered(db, "a1 b1")
    one, admin = db.open(), db.open()
    admin.begin()
    assert choose(admin, "b") == 1
    taking = ask(one, "a")
    wait_until_blocked(db.main.connection, one.pid)
    admin.commit()
    with refused("PQ021"):
        taking.result(timeout=30)
    assert Worker(db.open(), "1", "host:1:x").drain() == ["b1"]
