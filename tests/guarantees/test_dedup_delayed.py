"""Delayed events with a key: one event, which comes when it is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.guarantees.dedup import keys, once, read
from tests.guarantees.delayed import move
from tests.guarantees.sessions import refused

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

AT = """
    select pgq.insert_event_once('q', %s, '1 hour', 't', %s, i_deliver_at => %s::timestamptz)::text
"""
WAITING = "select count(*) from pgq.delayed_event"


def test_delayed_event_comes_once_with_the_id_that_each_call_returned(db: Database) -> None:
    db.queue()
    time = "2099-01-01"
    first, is_new = read(db.main.one(AT, "k", "a", time))
    assert is_new
    assert read(db.main.one(AT, "k", "b", time)) == (first, False)
    assert once(db.main, "c") == (first, False)
    assert db.main.one(WAITING) == 1
    assert db.main.deliver() == []
    db.main.run("update pgq.delayed_event set ev_deliver_at = clock_timestamp()")
    assert move(db.main) == 1
    db.main.tick()
    assert [(event.id, event.data) for event in db.main.events(db.main.next())] == [(first, "a")]
    assert once(db.main, "d") == (first, False)


def test_key_and_waiting_event_are_one_transaction(db: Database) -> None:
    db.queue(per_tx_limit="1")
    db.main.begin()
    assert read(db.main.one(AT, "k", "a", "2099-01-01"))[1]
    db.main.run("savepoint s")
    with refused("PQ007"):
        db.main.one(AT, "l", "b", "2099-01-01")
    db.main.run("rollback to s")
    with refused("PQ009"):
        db.main.one("select pgq.open_stage('q', 'w', 1)")
    db.main.rollback()
    assert (keys(db.main), db.main.one(WAITING)) == ([], 0)
    for time in ("2999-01-01", "infinity"):
        with refused("PQ009"):
            db.main.one(AT, "k", "a", time)
    assert keys(db.main) == []
    assert read(db.main.one(AT, "k", "a", "2001-01-01"))[1]
    assert db.main.deliver() == ["a"], "the time has passed"


def test_delayed_event_that_is_cancelled_frees_its_key(db: Database) -> None:
    db.queue()
    first, _ = read(db.main.one(AT, "k", "a", "2099-01-01"))
    cancel = "select state from pgq.cancel_event('q', array[%s]::bigint[])"
    assert db.main.one(cancel, first) == "cancelled"
    assert once(db.main, "b")[1]
    assert db.main.deliver() == ["b"]
