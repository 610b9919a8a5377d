"""Crashes of workers: what is counted against an event, and what is taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.guarantees.lanes import CAREFUL, SET, Run
from tests.guarantees.workers import AWAY, Worker, workers

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

pytestmark = pytest.mark.alone

COUNTED = "select pos_tries, pos_died from pgq.current_position where pos_batch > 0"
COUNT = "update pgq.position set pos_part = 1, pos_tries = 1, pos_died = %s where pos_batch > 0"
TRIES = "select tries, died, worker from pgq.take_part('q', 'c', %s, %s)"
RUN_LOCK = "select pg_advisory_lock_shared(7366516, hashtext(%s))"
RUN_UNLOCK = "select pg_advisory_unlock_shared(7366516, hashtext(%s))"
HOUR = "update pgq.position set pos_moved = now() - interval '1 hour'"
UNMOVED = (  # for nearly an hour
    "select clock_timestamp() - pos_moved > '59 min' from pgq.current_position where pos_batch > 0"
)
DIED = "select died from pgq.take_part('q', 'c', %s, %s)"
LEASED = "select batch_id from pgq.take_part('q', 'c', null, %s, '1 minute')"
BACK = "host:1:x"  # the run that was counted, and comes back


@pytest.mark.parametrize("died", [True, False])
def test_process_that_comes_back_after_a_lost_session_did_not_die(db: Database, died: bool) -> None:
    """Three ends narrow the range to one event, and each one after that counts against it."""
    made = workers(db, "a", 3)
    counts: list[Any] = []
    for number in range(6):
        worker, idle = made[number % 3], made[(number + 2) % 3]
        if died and number:
            idle.holder = f"host:{number}:new"
        worker.take()
        counts += db.main.all(COUNTED)
        worker.lock()
        assert idle.take() is None
        counts += db.main.all(COUNTED)
        worker.session.one("select pg_advisory_unlock_all()::text")
    none, *rest = counts[-4:]
    if died:
        tokens = ["host:1:new", "host:2:new"]
        assert [none, *rest] == [(1, tokens[:1])] * 2 + [(2, tokens)] * 2
    else:
        assert [none, *rest] == [(1, ["host:1:x"]), (None, []), (1, ["host:2:x"]), (None, [])]


def counted(db: Database, holder: str, *died: str) -> Worker:
    """Make another worker have a range in which runs are counted, as one that lives."""
    one, other = workers(db, "a")
    one.holder = BACK
    other.holder = holder
    other.lock().take()
    db.main.connection.execute(COUNT, [list(died)])
    return one


def test_process_that_takes_its_lost_range_again_did_not_die(db: Database) -> None:
    one = counted(db, "host:2:x", BACK)
    db.main.run("update pgq.position set pos_until = now() - interval '1 hour'")
    assert one.session.one(DIED, "1", BACK) == ["host:2:x"]
    assert db.main.all(COUNTED) == [(1, ["host:2:x"])]


def test_worker_without_a_subconsumer_that_comes_back_did_not_die(db: Database) -> None:
    counted(db, "host:2:x", BACK)
    assert db.main.one(LEASED, BACK) is None
    assert db.main.all(COUNTED) == [(None, [])]


def test_range_that_is_locked_is_uncounted_later(db: Database) -> None:
    one = counted(db, "host:2:x", BACK, "host:3:x")
    one.session.run("set lock_timeout = '1s'")
    stopped = db.open()
    stopped.begin()
    stopped.one("select pos_no from pgq.position where pos_batch > 0 for no key update")
    assert one.take() is None
    assert db.main.all(COUNTED) == [(1, [BACK, "host:3:x"])]
    stopped.rollback()
    assert one.take() is None
    assert db.main.all(COUNTED) == [(None, ["host:3:x"])]


def test_token_counts_once(db: Database) -> None:
    one = counted(db, "host:2:x", "host:2:x")
    db.main.run("update pgq.position set pos_until = now() - interval '1 hour'")
    assert one.take() is not None
    assert db.main.all(COUNTED) == [(1, ["host:2:x"])]


def test_progress_clears_the_tokens_with_the_tries(db: Database) -> None:
    counted(db, "host:2:x", BACK)
    event = db.main.one("select pos_batch from pgq.position where pos_batch > 0")
    batch, (first, *_) = event, db.main.events(event)
    assert db.main.one("select pgq.finish_part(%s, null, array[%s])", batch, first.id) == 1
    assert db.main.one("select pgq.end_run('q', 'c.2', 'host:2:x')") == 1
    assert db.main.all(COUNTED) == [(1, [BACK])]
    assert db.main.one("select pgq.finish_part(%s, %s)", batch, first.id) == 1
    assert db.main.all(COUNTED) == [(None, None)]


def test_run_whose_session_is_there_has_not_died(db: Database) -> None:
    """It lost its range, because it sent no heartbeat."""
    one = counted(db, "host:2:x", BACK, "host:3:x")
    db.main.run("update pgq.position set pos_tries = 2 where pos_batch > 0")
    silent = db.open()
    silent.one(RUN_LOCK, BACK)
    again = db.open()
    assert again.all(TRIES, "2", "host:2:x") == [(1, ["host:3:x"], "2")]
    one.session.one(RUN_LOCK, "host:3:x")
    assert again.all(TRIES, "2", "host:2:x") == [(None, [], "2")]
    assert db.main.all(COUNTED) == [(2, [BACK, "host:3:x"])]
    silent.one(RUN_UNLOCK, BACK)
    assert again.all(TRIES, "2", "host:2:x") == [(1, [BACK], "2")]


def test_run_with_lanes_whose_session_is_there_has_not_died(db: Database) -> None:
    db.queue()
    db.main.one(SET, 1, "extra1")
    run = Run(db.open(), "host:2:x")
    db.main.tick_after("a")
    assert run.take() is not None
    db.main.connection.execute(COUNT, [[BACK]])
    assert run.session.all(CAREFUL, run.holder) == [(1, 1, [BACK])]
    silent = db.open()
    silent.one(RUN_LOCK, BACK)
    assert run.session.all(CAREFUL, run.holder) == [(1, None, [])]


@pytest.mark.parametrize("released", [False, True])
def test_takeover_is_no_progress(db: Database, released: bool) -> None:
    one, other = workers(db, "a")
    assert one.take() is not None
    db.main.run(HOUR)
    if released:
        assert db.main.one("select pgq.end_run('q', 'c.1', %s)", one.holder) == 1
    assert other.take(dead="0") is not None
    assert db.main.all(UNMOVED) == [(True,)]
    if released:
        return
    one.holder = "host:3:x"
    assert one.take(dead="0") is not None
    assert one.session.one("select pgq.widen_run('q', 'c.1', %s)", one.holder) == 1000
    assert db.main.all(UNMOVED) == [(True,)]
    assert db.main.one("select attempt from pgq.get_worker_info() where current_batch > 0") == 2


@pytest.mark.parametrize("again", ["same worker", "plain consumer"])
@pytest.mark.parametrize("away", [False, True])
def test_run_that_begins_again_is_no_progress_unless_nobody_was_at_work(
    db: Database, again: str, away: bool
) -> None:
    if again == "same worker":
        (worker,) = workers(db, "a", 1)
        worker.take()
        end, begin = "select pgq.end_run('q', 'c.1', %s)", "select 'workers do not call it'"
    else:
        db.queue()
        db.main.tick_after("a")
        end, begin = "select pgq.end_run('q', 'c', %s)", "select pgq.begin_run('q', 'c', 'run 2')"
        db.main.one("select pgq.begin_run('q', 'c', 'host:1:x')")
        assert db.main.one("select pgq.next_batch('q', 'c')") is not None
    db.main.run(HOUR)
    assert db.main.one(end, "host:1:x") == 1
    if away:
        db.main.run("update pgq.position set pos_active = now() - interval '11 minutes'")
    db.main.one(begin)
    if again == "same worker":
        worker.holder = "host:2:x"
        assert worker.take() is not None
    assert db.main.all(UNMOVED) == [(not away,)]


def test_position_that_moves_without_a_finished_event_is_no_progress(db: Database) -> None:
    one, _ = workers(db, "a")
    batch = one.take()
    db.main.run(HOUR)
    assert db.main.one("select pgq.finish_part(%s, null, '{}')", batch) == 1
    assert db.main.all(UNMOVED) == [(True,)]


def test_range_that_nobody_worked_on_begins_anew(db: Database) -> None:
    one, other = workers(db, "a")
    db.main.one(f"{AWAY} returning 1", one.take())
    db.main.run(HOUR)
    assert other.take() is not None
    assert db.main.all(UNMOVED) == [(False,)]
