"""Receivers beside the other calls of the engine, and late ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.guarantees.inflight import call, data, done, drain, end_lease, insert, receive, shared
from tests.guarantees.sessions import refused
from tests.guarantees.stalling import REATTACH, detach, stall

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database


def test_late_receiver_changes_nothing(db: Database) -> None:
    shared(db, "a")
    one, other = db.open(), db.open()
    claimed = receive(one)
    end_lease(db, claimed)
    taken = receive(other)
    assert done(one, claimed) == 0
    assert call(one, "release", claimed) == 0
    assert call(one, "retry", claimed, "0") == 0
    assert call(one, "dead", claimed, "why") == 0
    assert one.one("select pgq.extend('q', 's', %s, '1 hour')", claimed[0].token) == 0
    with refused("PQ025"):
        call(one, "done_receive", claimed)
    assert done(other, taken) == 1


def test_lease_that_is_being_ended_stops_no_other(db: Database) -> None:
    shared(db, "a", "b")
    one, other = db.open(), db.open()
    claimed = receive(one, 2)
    end_lease(db, claimed)
    one.begin()
    assert done(one, claimed[:1]) == 1
    other.run("set lock_timeout = '1s'")
    assert receive(other) == []
    insert(db.main, "c")
    assert data(receive(other)) == ["c"]
    one.commit()
    end_lease(db, claimed)
    assert data(receive(other)) == ["b"]


def test_event_that_is_returned_waits_for_those_of_its_key_before_it(db: Database) -> None:
    shared(db, "a1", "a2", "a3", key="extra1")
    one, other = db.open(), db.open()
    claimed = receive(one, 3)
    assert data(claimed) == ["a1", "a2", "a3"]
    assert call(one, "release", claimed[1:2]) == 1
    assert receive(other) == [], "a1 is in hand"
    assert done(one, claimed[:1]) == 1
    assert [(each.data, each.attempts) for each in receive(other)] == [("a2", 1)]
    assert receive(one) == []


def test_receivers_are_detached_with_their_consumer(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    db.main.one("select pgq.set_consumer_mode('q', 'c', 'shared')")
    stall(db)
    assert detach(db) == 1
    query = "select array_agg(ev_data) from pgq.receive('q', 'c', 10)"
    with refused("PQ024"):
        db.main.one(query)
    assert db.main.one(REATTACH, False) == 1
    assert db.main.one(query) == ["a", "b"]


NOT_FOR_RECEIVED = [
    "select pgq.next_batch('q', 's')",
    "select * from pgq.open_batch('q', 's')",
    "select pgq_coop.register_subconsumer('q', 's', '1')",
    "select pgq_coop.next_batch('q', 's', '1')",
    "select pgq.pin_range('q', 's', 1, 2)",
    "select pgq.advance_subscription('q', 's', 1, 2)",
    "select pgq.register_shared_consumer('q', 's', 'type')",
]


def test_calls_for_batches_are_refused_where_events_are_received(db: Database) -> None:
    shared(db, "a")
    db.main.tick()
    found = []
    for statement in NOT_FOR_RECEIVED:
        with pytest.raises(psycopg.Error) as failed:
            db.main.run(statement)
        found.append((failed.value.sqlstate, statement))
    assert found == [("PQ020", statement) for statement in NOT_FOR_RECEIVED]
    assert drain(db.main) == ["a"]
