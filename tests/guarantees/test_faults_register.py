"""Consumers that come and go, and queues dropped or repaired, beside transactions in progress."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.guarantees.sessions import refused
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.guarantees.sessions import Database, Session


def _open_batch(db: Database) -> int:
    db.queue()
    db.main.tick_after("a")
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
    second = db.behind(
        "select pgq.register_consumer('q', 'c')", "select pgq.register_consumer('q', 'c')"
    )
    assert second == 0
    assert db.main.one("select count(*) from pgq.subscription") == 1


def test_register_waits_for_an_unregister_and_begins_anew(db: Database) -> None:
    batch = _open_batch(db)
    second = db.behind(
        "select pgq.unregister_consumer('q', 'c')", "select pgq.register_consumer('q', 'c')"
    )
    assert second == 1
    assert db.main.finish(batch) == 0


@pytest.mark.parametrize("first", ["unregister", "register"])
def test_name_that_leaves_one_queue_and_enters_another(db: Database, first: str) -> None:
    db.queue("a", consumers=("c",))
    db.queue("b", consumers=())
    calls = {
        "unregister": "select pgq.unregister_consumer('a', 'c')",
        "register": "select pgq.register_consumer('b', 'c')",
    }
    assert db.behind(calls.pop(first), calls.popitem()[1]) == 1
    assert db.main.all("select queue_name from pgq.get_consumer_info()") == [("b",)]


RETRY_RAW = "select pgq.event_retry_raw('q', 'c', now(), null, null, 0, 't', 'd', '', '', '', '')"


@pytest.mark.parametrize("call", [RETRY_RAW, "select pgq.revive_dead_events('q', 'c')"])
def test_event_set_aside_while_its_consumer_leaves_does_not_stay(db: Database, call: str) -> None:
    batch = _open_batch(db)
    (event,) = db.main.events(batch)
    dead = "select pgq.event_dead(%s, array[%s::int8], array[%s::int8], '{why}')"
    assert db.main.one(dead, batch, event.id, event.txid) == 1
    assert db.behind(call, "select pgq.unregister_consumer('q', 'c')") == 1
    assert _left_over(db.main) == 0


WHOLE = {
    "drop": "select pgq.drop_queue('q', true)",
    "repair": "select pgq.repair_queue('q')",
}
FIRST: dict[str, Callable[[Session, int], object]] = {
    "an event": lambda session, batch: session.insert("a"),
    "a batch": lambda session, batch: session.events(batch),
    "a retry": lambda session, batch: session.one("select pgq.batch_retry(%s, 0)", batch),
    "a subscription": lambda session, batch: session.finish(batch),
    "the sequence": lambda session, batch: session.one("select pgq.force_tick('q')"),
    "a consumer's name": lambda session, batch: session.one(
        "select pgq.register_consumer('r', 'c')"
    ),
    "a dead event": lambda session, batch: session.one("select pgq.delete_dead_events('q', 'c')"),
}
THEN: dict[str, Callable[[Session, int], object]] = {
    "an event": lambda session, batch: session.insert("b"),
    "a batch": lambda session, batch: session.events(batch),
    "the end of a batch": lambda session, batch: session.finish(batch),
    "a tick": lambda session, batch: session.tick(),
    "another queue": lambda session, batch: session.one("select pgq.create_queue('s')"),
}
PAIRS = [(first, "an event") for first in FIRST] + [("an event", then) for then in [*THEN][1:]]


def _with_a_dead_event(db: Database) -> int:
    """A queue with a dead event, and an open batch."""
    db.queue("r", consumers=())
    db.queue(ticker_max_lag="0")
    db.main.tick_after("dead", "open")
    first = db.main.next()
    (event,) = db.main.events(first)
    dead = "select pgq.event_dead(%s, array[%s], array[%s], '{why}')"
    db.main.one(dead, first, event.id, event.txid)
    db.main.finish(first)
    batch = db.main.next()
    assert batch is not None
    return batch


CASES = [*((*pair, "drop") for pair in PAIRS), *((*pair, "repair") for pair in PAIRS[::3])]


def test_transaction_that_holds_a_part_gets_the_rest(
    db: Database, subtests: pytest.Subtests
) -> None:
    for first, then, whole in CASES:
        with subtests.test(first=first, then=then, whole=whole):
            _expect_the_rest_beside(db, first, then, WHOLE[whole])
        for queue in ("q", "r", "s"):
            with suppress(psycopg.Error):
                db.main.one("select pgq.drop_queue(%s, true)", queue)


def _expect_the_rest_beside(db: Database, first: str, then: str, whole: str) -> None:
    batch = _with_a_dead_event(db)
    user, admin = db.open(), db.open()
    user.begin()
    FIRST[first](user, batch)
    db.main.rotate()
    waiting = admin.later(whole)
    assert wait_until_blocked(db.main.connection, admin.pid) == [user.pid]
    THEN[then](user, batch)
    user.commit()
    assert waiting.result(timeout=30)


def test_drop_gives_up_when_the_caller_will_wait_no_longer(db: Database) -> None:
    _with_a_dead_event(db)
    producer, admin = db.open(), db.open()
    producer.begin()
    producer.insert("a")
    admin.run("set lock_timeout = '50ms'; set statement_timeout = '2s'")
    with refused("55P03"):
        admin.one(WHOLE["drop"])
    producer.commit()
    assert admin.one("show lock_timeout") == "50ms"
    assert admin.one(WHOLE["drop"]) == 1


def test_drop_that_waits_leaves_the_queue_to_the_others(db: Database) -> None:
    batch = _with_a_dead_event(db)
    producer, admin = db.open(), db.open()
    producer.begin()
    producer.insert("a")
    db.main.rotate()
    dropped = admin.later(WHOLE["drop"])
    wait_until_blocked(db.main.connection, admin.pid)
    assert db.main.insert("b")
    assert db.main.tick()
    assert db.main.finish(batch) == 1
    assert not dropped.done()
    producer.commit()
    assert dropped.result(timeout=30) == 1


def test_drop_of_a_queue_with_consumers_is_refused_beside_a_producer(db: Database) -> None:
    _with_a_dead_event(db)
    producer = db.open()
    producer.begin()
    producer.insert("a")
    with pytest.raises(psycopg.Error) as failed:
        db.main.one("select pgq.drop_queue('q')")
    assert failed.value.sqlstate == "PQ008"
