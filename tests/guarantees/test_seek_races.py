"""Seek beside sessions that finish, retry, move retried events, rotate or compact."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.lanes import runs
from tests.guarantees.seek import (
    MOVE_RETRIES,
    RETRIES,
    SEEK,
    SEEK_TIME,
    fail,
    put_back,
    retry,
    ticked,
)
from tests.guarantees.sessions import refused
from tests.guarantees.workers import Worker, workers
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tests.guarantees.sessions import Database, Session

RAW = """
    select pgq.event_retry_raw('q', 'c', now() + interval '1 hour', 1::bigint, now(), 0, 't', 'raw',
        null, null, null, null)"""


def seek_later(db: Database, place: int, *, discard: bool) -> tuple[Session, Future[int]]:
    """Start a seek that another session holds up."""
    seeker = db.open()
    call = seeker.later(SEEK, place, discard)
    wait_until_blocked(db.main.connection, seeker.pid)
    return seeker, call


def test_batch_that_is_being_finished_is_finished_before(db: Database) -> None:
    db.queue()
    place, _ = ticked(db.main, "a")
    batch = db.main.next()
    worker = db.open()
    worker.begin()
    assert worker.finish(batch) == 1
    _, call = seek_later(db, place, discard=False)
    worker.commit()
    assert call.result(timeout=30) == place
    assert db.main.drain() == ["a"]


def test_batch_is_not_finished_behind_a_seek(db: Database) -> None:
    db.queue()
    place, _ = ticked(db.main, "a")
    batch = db.main.next()
    seeker, worker = db.open(), db.open()
    seeker.begin()
    seeker.one(SEEK, place, False)
    late = worker.later("select pgq.finish_batch(%s)", batch)
    wait_until_blocked(db.main.connection, worker.pid)
    seeker.commit()
    assert late.result(timeout=30) == 0
    assert db.main.drain() == ["a"]


def test_seek_that_is_rolled_back_changes_nothing(db: Database) -> None:
    db.queue()
    place, _ = ticked(db.main, "ab")
    fail(db.main, "a", seconds=1000)
    seeker = db.open()
    seeker.begin()
    seeker.one(SEEK, place, True)
    seeker.rollback()
    assert db.main.drain() == []
    assert db.main.one(RETRIES) == ["a"]


@pytest.mark.parametrize("how", ["plain", "worker", "lane", "raw"])
def test_event_that_is_being_retried_is_dropped_too(db: Database, how: str) -> None:
    if how == "lane":
        (run,) = runs(db, 1, lanes=1)
        place, _ = ticked(db.main, "a")
        session, batch = run.session, run.take()
    elif how == "worker":
        one: Worker = workers(db, "", 1)[0]
        place, _ = ticked(db.main, "a")
        session, batch = one.session, one.take()
    else:
        db.queue()
        place, _ = ticked(db.main, "a")
        session, batch = db.open(), db.main.next()
    session.begin()
    if how == "raw":
        session.one(RAW)
    else:
        retry(session, batch, "a")
    _, call = seek_later(db, place, discard=True)
    session.commit()
    assert call.result(timeout=30) == place
    assert db.main.one(RETRIES) is None


def test_event_that_is_being_put_back_is_dropped_too(db: Database) -> None:
    db.queue()
    _, place = ticked(db.main, "a")
    fail(db.main, "a")
    mover = db.open()
    mover.begin()
    assert mover.one(MOVE_RETRIES) == 1
    _, call = seek_later(db, place, discard=True)
    mover.commit()
    assert call.result(timeout=30) == place
    assert db.main.deliver() == []


def test_move_of_retries_that_began_before_brings_what_is_retried_after(db: Database) -> None:
    db.queue()
    place, _ = ticked(db.main, "a")
    mover = db.open()
    mover.begin()
    assert mover.one("select txid_current() > 0")
    db.main.one("select txid_current()")
    db.main.one(SEEK, place, True)
    batch = db.main.next()
    (event,) = db.main.events(batch)
    db.main.one("select pgq.event_retry(%s, %s, '2020-01-01'::timestamptz)", batch, event.id)
    assert db.main.finish(batch) == 1
    assert mover.one(MOVE_RETRIES) == 1
    mover.commit()
    assert db.main.deliver() == ["a"]


def test_transaction_that_seeks_may_move_retries_too(db: Database) -> None:
    db.queue()
    place, _ = ticked(db.main, "ab")
    fail(db.main, "b", seconds=1000)
    db.main.begin()
    db.main.one(SEEK, place, True)
    assert fail(db.main, "a") == ["a", "b"]
    db.main.one("select count(*) from (select txid_current()) t")
    db.main.run("update pgq.retry_queue set ev_retry_after = now()")
    assert db.main.one(MOVE_RETRIES) == 1
    db.main.commit()
    assert db.main.deliver() == ["a"]


def rotated_beside(db: Database) -> Session:
    """Return a session whose rotation removes the first events, and is not committed yet."""
    db.queue()
    for data in "abc":
        ticked(db.main, data)
        db.main.drain()
        if data != "c":
            db.main.rotate()
    rotator = db.open()
    rotator.begin()
    rotator.one("select pgq.maint_rotate_tables_step1('q')")
    return rotator


def test_seek_that_waited_for_a_rotation_goes_to_what_is_left(db: Database) -> None:
    rotator = rotated_beside(db)
    seeker, other = db.open(), db.open()
    beginning = seeker.later(SEEK_TIME, "-infinity")
    gone = other.later(SEEK, 2, False)
    for session in (seeker, other):
        wait_until_blocked(db.main.connection, session.pid)
    rotator.commit()
    low = db.main.one("select queue_low_tick from pgq.queue")
    assert low > 2
    assert beginning.result(timeout=30) == low
    with refused("PQ016"):
        gone.result(timeout=30)


def test_rotation_and_compaction_wait_for_a_seek(db: Database) -> None:
    rotated_beside(db).rollback()
    seeker = db.open()
    seeker.begin()
    assert seeker.one(SEEK, 2, False) == 2
    assert db.main.rotate() == 2
    assert db.main.one("select pgq.compact_ticks()") is False
    seeker.commit()
    assert db.main.rotate() == 0, "of what came before"
    assert db.main.rotate() == 0, "the consumer needs the rest again"
    assert db.main.drain() == ["b", "c"]


def test_put_back_events_are_not_searched_once_their_ticks_have_passed(db: Database) -> None:
    db.queue()
    place, _ = ticked(db.main, "a")
    fail(db.main, "a")
    put_back(db.main)
    db.main.one(SEEK, place, True)
    text = "select pgq.batch_event_sql(%s) like '%%txid_visible%%'"
    assert db.main.one(text, db.main.next()) is True
    assert db.main.drain() == ["a"]
    assert db.main.deliver() == []
    db.main.tick()
    assert db.main.one(text, db.main.next()) is False
