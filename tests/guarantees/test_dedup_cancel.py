"""Keys of cancelled events: free where nobody gets the event, and taken where somebody did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.guarantees.dedup import EXPIRE, keys, once

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

CANCEL = "select array_agg(state order by state) from pgq.cancel_event('q', array[%s]::bigint[])"


def test_event_that_nobody_gets_frees_its_key_with_the_transaction(db: Database) -> None:
    db.queue()
    db.queue("other", consumers=())
    ev_id, _ = once(db.main, "a")
    db.main.one("select pgq.insert_event_once('other', 'same id', '1 h', 't', 'd')")
    db.main.begin()
    assert db.main.one(CANCEL, ev_id) == ["cancelled"]
    assert once(db.main, "b")[1]
    db.main.rollback()
    assert once(db.main, "c") == (ev_id, False)
    db.main.one(CANCEL, ev_id)
    assert keys(db.main) == ["same id"]
    assert once(db.main, "d")[1]
    assert db.main.deliver() == ["d"]


def test_event_that_one_consumer_has_had_keeps_its_key(db: Database) -> None:
    db.queue(consumers=("c", "late"))
    ev_id, _ = once(db.main, "a")
    db.main.deliver("c")
    assert db.main.one(CANCEL, ev_id) == ["cancelled", "delivered"]
    assert once(db.main, "b") == (ev_id, False)
    assert db.main.one("select state from pgq.skip_event('q', 'late', array[%s])", ev_id)
    assert keys(db.main) == ["k"]


def test_cancel_waits_for_no_key_that_is_taken_anew(db: Database) -> None:
    db.queue()
    ev_id, _ = once(db.main, "a")
    db.main.run(EXPIRE)
    caller = db.open()
    caller.begin()
    new, _ = once(caller, "b")
    db.main.run("set lock_timeout = '2 s'")
    assert db.main.one(CANCEL, ev_id) == ["cancelled"]
    caller.commit()
    assert once(db.main, "c") == (new, False)
    assert db.main.deliver() == ["b"]
