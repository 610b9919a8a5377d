"""Detach and reattach beside sessions that open, finish, retry or rotate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.guarantees.lanes import held_look, runs
from tests.guarantees.seek import MOVE_RETRIES, ticked
from tests.guarantees.sessions import refused
from tests.guarantees.stalling import MAINT, REATTACH, TABLE, detach, stall
from tests.guarantees.workers import workers
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

LANE = "select pos_no from pgq.current_position where sub_mode = 'lane'"
# Else the run would check the queue, and hold the event tables.
HELD = """
    alter function pgq.ticked_time(pgq.queue, bigint) rename to ticked_time_itself;
    create function pgq.ticked_time(q pgq.queue, i_tick bigint) returns interval
    language plpgsql as $$ begin
    {}
    return pgq.ticked_time_itself(q, i_tick); end $$"""


def test_mover_that_looked_before_a_reattach_finds_what_is_due(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    ticked(db.main, "r")
    batch = db.main.next()
    event = db.main.events(batch)[0].id
    db.main.one("select pgq.event_retry(%s, %s, 5000)", batch, event)
    db.main.finish(batch)
    db.main.drain("other")
    stall(db)
    assert detach(db) == 1
    mover, operator = db.open(), db.open()
    operator.begin()
    operator.one(REATTACH, False)
    assert mover.one(MOVE_RETRIES) == 0
    operator.commit()
    assert mover.one(MOVE_RETRIES) == 1


def test_consumer_that_is_at_work_is_not_detached(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    worker = db.open()
    worker.begin()
    batch = worker.next()
    assert worker.data(batch) == ["a"]
    assert detach(db) == 0
    assert worker.finish(batch) == 1
    worker.commit()
    assert db.main.rotate() == 0


def test_batch_is_not_finished_behind_a_detach(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    ticker, worker = db.open(), db.open()
    batch = worker.next()
    ticker.begin()
    ticker.one(MAINT)
    finishing = worker.later("select pgq.finish_batch(%s)", batch)
    wait_until_blocked(db.main.connection, worker.pid)
    ticker.commit()
    assert finishing.result(timeout=30) == 0
    assert db.main.rotate() == 0


def test_next_batch_that_waited_for_a_detach_is_refused(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    ticker, worker = db.open(), db.open()
    ticker.begin()
    ticker.one(MAINT)
    opening = worker.later("select pgq.next_batch('q', 'c')")
    wait_until_blocked(db.main.connection, worker.pid)
    ticker.commit()
    with refused("PQ024"):
        opening.result(timeout=30)


def test_rotation_that_waits_for_a_reattach_counts_the_consumer(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    assert detach(db) == 1
    operator, ticker = db.open(), db.open()
    operator.begin()
    operator.one(REATTACH, False)
    ticker.one("select pgq.maint_rotate_tables_step1('q')")
    assert db.main.one("select queue_cur_table from pgq.queue") == 2
    operator.commit()
    assert db.main.rotate() == 2
    assert db.main.drain() == ["a", "b"]


def test_run_that_looks_at_a_lane_does_not_move_it_behind_a_detach(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    (run,) = runs(db, 1, lanes=1)
    before = db.main.one(LANE)
    with held_look(db, run) as gate:
        taking = run.session.later("select batch_id from pgq.take_lane('q', 'c', %s)", run.holder)
        gate.wait_for_arrival()
        assert detach(db) == 2
        assert db.main.rotate() == 2, "the look keeps the tables"
        gate.open()
        assert taking.result(timeout=30) is None
    assert db.main.one(LANE) == before
    assert db.main.rotate() == 0
    assert db.main.one(TABLE) == ["b"]
    with refused("PQ016"):
        db.main.one(REATTACH, False)


def test_consumer_that_went_on_meanwhile_is_not_detached(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    ticker = db.open()
    with db.held(ticker, HELD) as gate:
        maint = ticker.later(MAINT)
        gate.wait_for_arrival()
        assert db.main.finish(db.main.next()) == 1
        gate.open()
        assert maint.result(timeout=30) == 0
    assert db.main.drain() == ["b"]


def test_worker_that_is_at_work_keeps_its_consumer_attached(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    one, two = (worker.lock() for worker in workers(db, ""))
    stall(db)
    batch = one.take()
    assert two.finish(two.take()) == 1
    two.session.begin()
    one.session.begin()
    assert one.finish(batch) == 1
    assert detach(db) == 0
    one.session.commit()


def test_reattach_that_waited_for_a_rotation_tells_what_is_gone(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    assert detach(db) == 1
    ticker, operator = db.open(), db.open()
    ticker.begin()
    ticker.one("select pgq.maint_rotate_tables_step1('q')")
    reattach = operator.later(REATTACH, False)
    wait_until_blocked(db.main.connection, operator.pid)
    ticker.commit()
    with refused("PQ016"):
        reattach.result(timeout=30)
