"""Seek, cancel, rotation, detach and finish in pairs: either one first, committed or not.

Seek against finish, retry and rotation is in test_seek_races.py, detach against next_batch and
finish in test_stalled_races.py, cancel against next_batch in test_cancel_races.py.
"""

from __future__ import annotations

import pytest

from tests.guarantees.cancelling import states, states_later
from tests.guarantees.seek import SEEK, ticked
from tests.guarantees.sessions import Database, Session, refused
from tests.guarantees.stalling import MAINT, REATTACH, TABLE, detach, stall
from tests.support.gates import wait_until_blocked

ENDS = pytest.mark.parametrize("end", ["commit", "rollback"])
STEP1 = "select pgq.maint_rotate_tables_step1('q')"
CURRENT = "select queue_cur_table from pgq.queue"
TOLD = """
    select array_agg(state order by consumer_name)
      from pgq.cancel_event('q', array(select min(ev_id) from pgq.event_1))"""


def had(db: Database) -> tuple[int, int]:
    """Let the consumer finish an event; return the tick before it, and its id."""
    db.queue()
    place, _ = ticked(db.main, "a")
    event = int(db.main.one("select max(ev_id) from pgq.event_1"))
    assert db.main.drain() == ["a"]
    return place, event


@ENDS
def test_cancellation_that_waited_for_a_seek_hides_what_comes_again(db: Database, end: str) -> None:
    place, event = had(db)
    seeker, other = db.open(), db.open()
    seeker.begin()
    seeker.one(SEEK, place, False)
    waits = states_later(other, event)
    assert wait_until_blocked(db.main.connection, other.pid) == [seeker.pid]
    seeker.run(end)
    assert waits.result(timeout=30) == ["cancelled" if end == "commit" else "delivered"]
    assert db.main.drain() == []
    db.main.one(SEEK, place, False)
    assert db.main.drain() == ([] if end == "commit" else ["a"])


@ENDS
def test_seek_that_waited_for_a_cancellation_brings_nothing_that_it_hides(
    db: Database, end: str
) -> None:
    place, event = had(db)
    db.main.one(SEEK, place, False)
    seeker, other = db.open(), db.open()
    other.begin()
    assert states(other, event) == ["cancelled"]
    waits = seeker.later(SEEK, place, True)
    assert wait_until_blocked(db.main.connection, seeker.pid) == [other.pid]
    other.run(end)
    assert waits.result(timeout=30) == place
    assert db.main.drain() == ([] if end == "commit" else ["a"])


@ENDS
def test_batch_that_is_being_finished_counts_as_delivered(db: Database, end: str) -> None:
    db.queue()
    ticked(db.main, "a")
    batch = db.main.next()
    worker, other = db.open(), db.open()
    worker.begin()
    assert worker.finish(batch) == 1
    waits = states_later(other, 1)
    assert wait_until_blocked(db.main.connection, other.pid) == [worker.pid]
    worker.run(end)
    assert waits.result(timeout=30) == ["delivered"]
    assert db.main.drain() == (["a"] if end == "rollback" else [])


@ENDS
def test_batch_is_finished_behind_a_cancellation(db: Database, end: str) -> None:
    db.queue()
    ticked(db.main, "a", "b")
    batch = db.main.next()
    worker, other = db.open(), db.open()
    other.begin()
    assert states(other, 1, 2) == ["delivered", "cancelled"]
    finishing = worker.later("select pgq.finish_batch(%s)", batch)
    assert wait_until_blocked(db.main.connection, worker.pid) == [other.pid]
    other.run(end)
    assert finishing.result(timeout=30) == 1
    assert db.main.drain() == (["b"] if end == "rollback" else [])


@ENDS
def test_seek_that_waited_for_a_detach_moves_the_consumer_and_leaves_it_detached(
    db: Database, end: str
) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    last = db.main.one("select max(tick_id) from pgq.tick")
    ticker, seeker = db.open(), db.open()
    ticker.begin()
    ticker.one(MAINT)
    waits = seeker.later(SEEK, last, False)
    assert wait_until_blocked(db.main.connection, seeker.pid) == [ticker.pid]
    ticker.run(end)
    assert waits.result(timeout=30) == last
    if end == "commit":
        with refused("PQ024"):
            db.main.next()
    assert db.main.one(REATTACH, False) == (end == "commit")
    assert db.main.drain() == []


@ENDS
def test_consumer_that_is_being_moved_is_not_detached(db: Database, end: str) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    last = db.main.one("select max(tick_id) from pgq.tick")
    seeker = db.open()
    seeker.begin()
    assert seeker.one(SEEK, last, False) == last
    assert detach(db) == 0
    seeker.run(end)
    assert detach(db) == (end == "rollback")
    assert db.main.rotate() == 0, "nobody keeps the table of a"


@ENDS
def test_cancellation_that_waited_for_a_detach_hides_the_event_after_it(
    db: Database, end: str
) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    ticker, other = db.open(), db.open()
    ticker.begin()
    ticker.one(MAINT)
    waits = other.later(TOLD)
    assert wait_until_blocked(db.main.connection, other.pid) == [ticker.pid]
    ticker.run(end)
    assert waits.result(timeout=30) == ["cancelled", "delivered"]
    assert db.main.one(REATTACH, False) == (end == "commit")
    assert db.main.drain() == ["b"]


@ENDS
def test_consumer_is_not_detached_beside_a_cancellation(db: Database, end: str) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    other = db.open()
    other.begin()
    assert other.one(TOLD) == ["cancelled", "delivered"]
    assert detach(db) == 0
    other.run(end)
    assert detach(db) == 1
    assert db.main.one(REATTACH, False) == 1
    assert db.main.drain() == ["a", "b"][end == "commit" :]


@ENDS
def test_rotation_counts_a_consumer_until_its_detach_is_committed(db: Database, end: str) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    ticker = db.open()
    ticker.begin()
    ticker.one(MAINT)
    assert db.main.rotate() == 2
    assert db.main.one(TABLE) == ["a", "b"]
    ticker.run(end)
    assert db.main.rotate() == (0 if end == "commit" else 2)


def rotating(db: Database) -> Session:
    """Return a session whose rotation has truncated the next table."""
    rotator = db.open()
    rotator.begin()
    rotator.one(STEP1)
    return rotator


@ENDS
def test_nobody_is_detached_beside_a_rotation(db: Database, end: str) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    assert db.main.drain() == ["a", "b"]
    rotator = rotating(db)
    assert detach(db) == 0, "it looks without waiting for the table"
    rotator.run(end)
    assert detach(db) == 0
    assert db.main.one(CURRENT) == (0 if end == "commit" else 2)


def removable(db: Database) -> int:
    """Leave a table that the next rotation truncates; return an event out of reach after it."""
    db.queue()
    ids = []
    for table in (1, 2, None):
        ids.append(db.main.insert("a"))
        assert db.main.deliver() == ["a"]
        assert table is None or db.main.rotate() == table
    return ids[1]


@ENDS
def test_cancellation_that_waited_for_a_rotation_knows_what_is_left(db: Database, end: str) -> None:
    event = removable(db)
    rotator, other = rotating(db), db.open()
    waits = states_later(other, event)
    assert wait_until_blocked(db.main.connection, other.pid) == [rotator.pid]
    rotator.run(end)
    assert waits.result(timeout=30) == ["unknown" if end == "commit" else "delivered"]


@ENDS
def test_rotation_waits_for_a_cancellation(db: Database, end: str) -> None:
    event = removable(db)
    other = db.open()
    other.begin()
    assert states(other, event) == ["delivered"]
    assert db.main.rotate() == 2
    other.run(end)
    assert db.main.rotate() == 0
