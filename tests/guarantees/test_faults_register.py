"""Consumers that come and go while others do: no subscription twice, nothing left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.sessions import RC
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session


def _open_batch(db: Database) -> int:
    db.queue()
    db.main.insert("a")
    db.main.tick()
    batch = db.main.next()
    assert batch is not None
    return batch


def _left_over(session: Session) -> int:
    return int(
        session.one(
            "select (select count(*) from pgq.retry_queue) + (select count(*) from pgq.dead_event)"
        )
    )


def test_unregister_waits_for_the_batch_in_progress(db: Database) -> None:
    batch = _open_batch(db)
    consumer, admin = db.open(), db.open()
    consumer.begin()
    assert consumer.one("select pgq.batch_retry(%s, 0)", batch) == 1
    gone = admin.later("select pgq.unregister_consumer('q', 'c')")
    assert wait_until_blocked(db.main.connection, admin.pid) == [consumer.pid]
    consumer.finish(batch)
    consumer.commit()
    assert gone.result(timeout=30) == 1
    assert _left_over(db.main) == 0


def test_two_registers_at_once_make_one_subscription(db: Database) -> None:
    db.queue(consumers=())
    one, other = db.open(), db.open()
    one.begin()
    assert one.one("select pgq.register_consumer('q', 'c')") == 1
    second = other.later("select pgq.register_consumer('q', 'c')")
    wait_until_blocked(db.main.connection, other.pid)
    one.commit()
    assert second.result(timeout=30) == 0
    assert db.main.one("select count(*) from pgq.subscription") == 1


def test_register_waits_for_an_unregister_and_begins_anew(db: Database) -> None:
    batch = _open_batch(db)
    one, other = db.open(), db.open()
    one.begin()
    one.one("select pgq.unregister_consumer('q', 'c')")
    second = other.later("select pgq.register_consumer('q', 'c')")
    wait_until_blocked(db.main.connection, other.pid)
    one.commit()
    assert second.result(timeout=30) == 1
    assert db.main.finish(batch) == 0


@pytest.mark.parametrize("first", ["unregister", "register"])
def test_name_that_leaves_one_queue_and_enters_another(db: Database, first: str) -> None:
    db.queue("a", consumers=("c",))
    db.queue("b", consumers=())
    calls = {
        "unregister": "select pgq.unregister_consumer('a', 'c')",
        "register": "select pgq.register_consumer('b', 'c')",
    }
    one, other = db.open(), db.open()
    one.begin(RC)
    assert one.one(calls.pop(first)) == 1
    second = other.later(calls.popitem()[1])
    wait_until_blocked(db.main.connection, other.pid)
    one.commit()
    assert second.result(timeout=30) == 1
    assert db.main.all("select queue_name from pgq.get_consumer_info()") == [("b",)]


RETRY_RAW = "select pgq.event_retry_raw('q', 'c', now(), null, null, 0, 't', 'd', '', '', '', '')"


@pytest.mark.parametrize("call", [RETRY_RAW, "select pgq.revive_dead_events('q', 'c')"])
def test_event_set_aside_while_its_consumer_leaves_does_not_stay(db: Database, call: str) -> None:
    batch = _open_batch(db)
    (event,) = db.main.events(batch)
    dead = "select pgq.event_dead(%s, array[%s::int8], array[%s::int8], '{why}')"
    assert db.main.one(dead, batch, event.id, event.txid) == 1
    one, other = db.open(), db.open()
    one.begin()
    one.one(call)
    gone = other.later("select pgq.unregister_consumer('q', 'c')")
    wait_until_blocked(db.main.connection, other.pid)
    one.commit()
    assert gone.result(timeout=30) == 1
    assert _left_over(db.main) == 0
