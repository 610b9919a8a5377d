"""get_worker_info says what the server can know of workers, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from tests.guarantees.sessions import Session
from tests.guarantees.workers import AWAY, ENDED, LOCK, workers
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

BEGIN = "select part_size from pgq.begin_run('q', 'c', %s)"


def info(db: Database, worker: str | None = None, queue: str | None = "q") -> dict[str, Any]:
    """Return the row of a worker, or of the consumer itself."""
    query = b"select * from pgq.get_worker_info(%s, 'c') where worker is not distinct from %s"
    with db.main.connection.cursor(row_factory=dict_row) as cursor:
        (found,) = cursor.execute(query, [queue, worker]).fetchall()
    return found


def test_worker_lives_as_long_as_its_session_has_the_lock(db: Database) -> None:
    one, _ = workers(db, "a")
    assert (info(db, "1")["alive"], info(db, "1")["attempt"]) == (None, None)
    batch = one.lock().take()
    held = info(db, "1")
    assert (held["alive"], held["pid"]) == (True, one.session.pid)
    assert (held["current_batch"], held["last_tick"], held["next_tick"]) == (batch, 1, 2)
    assert (held["mode"], held["holder"], held["attempt"]) == ("shared", "host:1:x", 1)
    db.main.one("select pg_terminate_backend(%s)", one.session.pid)
    eventually(lambda: info(db, "1")["alive"] is False)
    assert (info(db, "1")["pid"], info(db, "1", None)["attempt"]) == (None, 1)


def test_idle_worker_lives_by_its_lock_and_else_nothing_is_known(db: Database) -> None:
    one, _ = workers(db, "")
    one.lock()
    assert (info(db, "1")["alive"], info(db, "1")["current_batch"]) == (True, None)
    assert info(db, "2")["alive"] is None


def test_lock_in_another_database_says_nothing(db: Database) -> None:
    one, _ = workers(db, "a")
    one.take()
    sub = db.main.one("select sub_id from pgq.current_position where pos_batch is not null")
    elsewhere = Session(make_conninfo(db.dsn, dbname="postgres"))
    try:
        elsewhere.one("select pg_advisory_lock(7366514, %s)", sub)
        assert info(db, "1")["alive"] is False
    finally:
        elsewhere.close()


def test_end_of_a_lease_decides_whatever_session_there_is(db: Database) -> None:
    one, other = workers(db, "ab")
    leased, locked = one.take("1 minute"), other.lock().take("1 minute")
    assert [info(db, worker)["alive"] for worker in "12"] == [True, True]
    assert info(db, "1")["lease_left"].total_seconds() > 0
    for batch in (leased, locked):
        db.main.one(f"{ENDED} returning 1", batch)
    assert [info(db, worker)["alive"] for worker in "12"] == [False, False]
    assert info(db, "1")["lease_left"].total_seconds() < 0


def test_nobody_knows_of_a_client_of_pgq_whether_it_lives(db: Database) -> None:
    one, _ = workers(db, "a", tokens=False)
    db.main.one(f"{AWAY} returning 1", one.take())
    gone = info(db, "1")
    assert (gone["alive"], gone["holder"]) == (None, None)
    assert gone["last_seen"].total_seconds() > 3000


def test_sign_of_life_is_no_progress(db: Database) -> None:
    one, _ = workers(db, "ab")
    batch = one.take()
    for column in ("pos_active", "pos_moved"):
        db.main.run(f"update pgq.position set {column} = now() - interval '1 hour'")
    db.main.one("select pgq.touch_batch(%s)", batch)
    touched = info(db, "1")
    assert touched["last_seen"].total_seconds() < 3000 < touched["last_move"].total_seconds()
    first = one.session.events(batch)[0].id
    db.main.one("select pgq.finish_part(%s, %s)", batch, first)
    moved = info(db, "1")
    assert (moved["finished_to"], moved["last_move"].total_seconds() < 3000) == (first, True)


def test_attempt_counts_the_crashes_that_are_known_of_a_batch(db: Database) -> None:
    one, other = workers(db, "ab")
    assert one.take() is not None
    found = []
    for run, worker in enumerate((other, one) * 3):
        worker.holder = f"host:{run}:x"  # a new process
        worker.take()
        had = info(db, worker.name)
        found.append((had["attempt"], had["part_size"], had["tries"]))
    careful = [(2, 1000, None), (3, 30, None), (4, 1, None)]
    assert found == [*careful, (5, 1, 1), (6, 1, 2), (7, 1, 3)]
    batch = info(db, "1")["current_batch"]
    assert one.finish(batch) == 1
    assert one.take() is not None
    fresh = info(db, "1")
    assert (fresh["attempt"], fresh["part_size"], fresh["tries"]) == (1, 1, None)


def test_plain_consumer_has_a_row_of_its_own(db: Database) -> None:
    db.queue()
    db.main.tick_after("a")
    assert (info(db)["mode"], info(db)["alive"]) == (None, None)
    session = db.open()
    session.one(LOCK.replace("'c.' || %s", "%s"), "c")
    assert session.one(BEGIN, "first") is None
    batch = session.next()
    held = info(db)
    assert (held["mode"], held["alive"], held["pid"]) == ("plain", True, session.pid)
    assert (held["current_batch"], held["attempt"], held["part_size"]) == (batch, 1, None)
    db.main.one("select pg_terminate_backend(%s)", session.pid)
    eventually(lambda: info(db)["alive"] is False)
    for run in range(4):
        db.main.one(BEGIN, f"run {run}")
    killer = info(db)
    assert (killer["attempt"], killer["part_size"], killer["tries"]) == (5, 1, 1)


@pytest.mark.alone
def test_rows_are_those_of_the_queue_and_consumer_that_are_named(db: Database) -> None:
    workers(db, "")
    db.queue("other", consumers=("c", "d"))
    query = "select queue_name, consumer_name, worker from pgq.get_worker_info({})"
    of_c = [("q", "c", None), ("q", "c", "1"), ("q", "c", "2")]
    assert db.main.all(query.format("")) == [("other", "c", None), ("other", "d", None), *of_c]
    assert db.main.all(query.format("'q'")) == of_c
    assert db.main.all(query.format("null, 'd'")) == [("other", "d", None)]
    assert db.main.all(query.format("'q', 'd'")) == []
