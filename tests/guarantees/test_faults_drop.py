"""A queue dropped while it is used: clean errors, nothing left behind, no deadlock."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

import pgqpy
from tests.guarantees import inflight
from tests.guarantees.sessions import Database, Session, refused
from tests.support.gates import wait_until_blocked
from tests.support.waiting import eventually

# What belongs to a queue in the catalogue: its number is in the name, or in the code.
BELONGINGS = """
    select relname from pg_class
     where relnamespace = 'pgq'::regnamespace and relname ~ '^event_[0-9]'
    union all
    select proname from pg_proc
     where pronamespace = 'pgq'::regnamespace and prosrc ~ 'pgq[.]event_[0-9]'
"""
ROWS = """
    select (select count(*) from pgq.queue) + (select count(*) from pgq.tick)
        + (select count(*) from pgq.registration) + (select count(*) from pgq.position)
        + (select count(*) from pgq.retry_queue) + (select count(*) from pgq.dead_event)
        + (select count(*) from pgq.consumer)
"""
DROP = "select pgq.drop_queue('q', true)"
# Whoever is in the middle of a statement when the queue goes: a lock is waited for, and then the
# object behind a number is gone (XX000), or one behind a name (42P01, 42883).
GONE = ("PQ001", "PQ002", "PQ003", "42P01", "42883", "XX000")


def _leftovers(session: Session) -> list[str]:
    return [row[0] for row in session.all(BELONGINGS)]


def _expect_nothing_left(db: Database) -> None:
    assert _leftovers(db.main) == []
    assert db.main.one(ROWS) == 0


@pytest.mark.alone
def test_drop_waits_for_the_consumer_in_the_middle_of_a_batch(db: Database) -> None:
    db.queue()
    db.main.tick_after("a")
    consumer, admin = db.open(), db.open()
    consumer.begin()
    batch = consumer.next()
    dropped = admin.later(DROP)
    assert wait_until_blocked(db.main.connection, admin.pid) == [consumer.pid]
    assert consumer.data(batch) == ["a"]
    assert consumer.one("select pgq.batch_retry(%s, 0)", batch) == 1
    assert consumer.finish(batch) == 1
    consumer.commit()
    assert dropped.result(timeout=30) == 1
    _expect_nothing_left(db)
    with refused("PQ002"):
        consumer.next()
    assert consumer.finish(batch) == 0


HOLDS_REFILLS = """
    select exists (
        select from pg_locks
         where locktype = 'advisory' and pid = %s and classid = pgq.lock_number('refill')::oid)"""


@pytest.mark.alone
@pytest.mark.parametrize("holds", ["refill", "run"])
@pytest.mark.parametrize("admin_call", [DROP, "select pgq.repair_queue('q')"])
def test_receiver_that_waits_for_a_table_does_not_deadlock(
    db: Database, holds: str, admin_call: str
) -> None:
    inflight.shared(db, "a", "b")
    first = inflight.receive(db.main, 2) if holds == "run" else []
    locker, admin, receiver = db.open(), db.open(), db.open()
    locker.begin()
    locker.run("lock table pgq.event_1 in access exclusive mode")
    locked = admin.later(admin_call)
    wait_until_blocked(db.main.connection, admin.pid)
    eventually(lambda: not db.main.one(HOLDS_REFILLS, admin.pid))  # it tries all, then waits alone
    receiver.begin()
    if holds == "run":
        assert inflight.done(receiver, first) == 2
        waiting = receiver.later("select count(*) from pgq.event_1")
    else:
        waiting = receiver.later(inflight.RECEIVE, 2, "1 minute", None, False)
    wait_until_blocked(db.main.connection, receiver.pid)
    locker.commit()
    assert waiting.result(timeout=30) is not None
    receiver.commit()
    assert locked.result(timeout=30) is not None


WAIT_FOR_DROP = [
    "select pgq.insert_event('q', 't', 'd')",
    "select count(*) from pgq.insert_events('q', array['t'], array['d'])",
    "select pgq.register_consumer('q', 'new')",
    "select pgq.maint_rotate_tables_step1('q')",
    "select pgq.maint_ticks('q')",
    "select pgq.repair_queue('q')",
    "select pgq.set_queue_config('q', 'ticker_max_count', '5')",
    "select pgq.next_batch('q', 'c')",
    "select pgq.drop_queue('q', true)",
]


@pytest.mark.alone
def test_who_waited_for_a_drop_gets_an_error(db: Database, subtests: pytest.Subtests) -> None:
    for call in WAIT_FOR_DROP:
        with subtests.test(call=call):
            _expect_an_error_after_a_drop(db, call)


def _expect_an_error_after_a_drop(db: Database, call: str) -> None:
    db.queue(ticker_max_lag="0")
    for _ in range(3):
        db.main.deliver()
        db.main.rotate()
    db.main.tick_after("a")
    db.main.insert("b")
    with refused(*GONE):
        db.behind(DROP, call)
    _expect_nothing_left(db)


def test_ticks_that_waited_for_a_drop_pass_the_queue_over(db: Database) -> None:
    db.queue()
    db.queue("r", ticker_max_lag="0")
    db.main.insert("a", "r")
    assert db.behind(DROP, "select tick_id from pgq.tick_queue('q')") is None
    assert db.main.one("select pgq.ticker()") == 1
    assert db.main.drain(queue="r") == ["a"]


def test_client_that_waited_for_a_drop_says_that_the_queue_is_gone(db: Database) -> None:
    db.queue()
    admin, user = db.open(), db.open()
    client = pgqpy.Client(user.connection)
    admin.begin()
    admin.one(DROP)
    with ThreadPoolExecutor(1) as background:
        waiting = background.submit(client.insert_event, "q", "t", "d")
        wait_until_blocked(db.main.connection, user.pid)
        admin.commit()
        with pytest.raises(pgqpy.QueueNotFound) as failed:
            waiting.result(timeout=30)
    assert failed.value.queue == "q"
