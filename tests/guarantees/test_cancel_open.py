"""Cancelled events that an open batch has, and of which a copy waits: delivered, and left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.cancelling import retry, states
from tests.guarantees.dedup import once, read
from tests.guarantees.stages import commit_stage, stage
from tests.guarantees.test_cancel_races import EITHER, WAYS, content

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

WAITS = "select count(*) from pgq.retry_queue"
MOVE = "select pgq.maint_retry_events()"
FINISH = "select pgq.finish_part(%s, %s)"
KEYED = "select pgq.insert_event_once('q', 'k', '1 hour', 't', 'a', 'key')::text"


def open_retried(db: Database, way: str, *others: str) -> tuple[int, Session, int]:
    """Open a batch and retry its first event; return the event, the session and the batch."""
    db.queue()
    opens, before = WAYS[way]
    if before:
        db.main.one(before)
    event, _ = read(db.main.one(KEYED))
    for other in others:
        db.main.one("select pgq.insert_event('q', 't', %s, 'key', null, null, null)", other)
    db.main.tick()
    taker = db.open()
    batch = taker.one(opens)
    retry(taker, batch, "a")
    return event, taker, batch


@EITHER
def test_retried_event_of_an_open_batch_is_delivered_and_keeps_its_retry_and_its_key(
    db: Database, way: str
) -> None:
    event, taker, batch = open_retried(db, way)
    assert states(db.main, event) == ["delivered"]
    assert once(db.main, "b") == (event, False)
    assert content(taker, batch) == ["a"]
    assert db.main.one(WAITS) == 1
    assert taker.finish(batch) == 1
    assert states(db.main, event) == ["cancelled"]
    assert db.main.one(WAITS) == 0
    assert once(db.main, "b")[1]


@EITHER
def test_retry_that_is_in_the_queue_is_not_hidden_while_the_batch_is_open(
    db: Database, way: str
) -> None:
    event, taker, batch = open_retried(db, way)
    assert db.main.one(MOVE) == 1
    db.main.tick()
    assert states(db.main, event) == ["delivered"]
    assert content(taker, batch) == ["a"]
    assert taker.finish(batch) == 1
    assert content(taker, taker.one(WAYS[way][0])) == ["a"]


@EITHER
def test_retry_of_an_event_that_is_finished_in_an_open_batch_is_removed(
    db: Database, way: str
) -> None:
    event, taker, batch = open_retried(db, way, "b")
    assert taker.one(FINISH, batch, event) == 1
    assert content(taker, batch) == ["b"]
    assert states(db.main, event) == ["cancelled"]
    assert db.main.one(WAITS) == 0


def test_event_that_is_finished_in_an_open_batch_is_delivered(db: Database) -> None:
    db.queue()
    event, _ = db.main.insert("a"), db.main.insert("b")
    db.main.tick()
    batch = db.main.next()
    assert db.main.one(FINISH, batch, event) == 1
    assert states(db.main, event) == ["delivered"]
    db.main.one("select pgq.register_consumer_at('q', 'c', 1)")
    assert db.main.drain() == ["a", "b"], "nothing was hidden"


def test_event_whose_retry_was_cancelled_is_delivered_by_a_batch_that_has_it_again(
    db: Database,
) -> None:
    event, main, batch = open_retried(db, "plain")
    main.finish(batch)
    main.one(MOVE)
    assert states(db.main, event) == ["cancelled"]
    main.one("select pgq.register_consumer_at('q', 'c', 1)")
    again = main.next()
    assert main.data(again) == ["a"]
    assert states(db.main, event) == ["delivered"]


def test_copy_that_a_seek_has_dropped_is_in_no_open_batch(db: Database) -> None:
    event, main, batch = open_retried(db, "plain")
    main.finish(batch)
    main.one(MOVE)
    main.tick()
    main.one("select tick_id from pgq.seek_consumer('q', 'c', 1)")
    retry(main, main.next(), "a")
    main.finish(main.one("select pgq.next_batch('q', 'c')"))
    assert main.data(main.next()) == []
    assert states(main, event) == ["cancelled"]
    assert main.one(WAITS) == 0


def test_event_that_the_filter_does_not_take_any_more_is_in_no_open_batch(db: Database) -> None:
    db.queue()
    main, event = db.main, db.main.insert("a")
    main.one("select pgq.insert_event('q', 'u', 'b')")
    main.tick()
    retry(main, batch := main.next(), "a")
    main.finish(batch)
    main.one("select pgq.set_consumer_filter('q', 'c', '{\"types\": [\"u\"]}')")
    main.one("select pgq.register_consumer_at('q', 'c', 1)")
    assert main.data(main.next()) == ["b"]
    assert states(main, event) == ["cancelled"]
    assert main.one(WAITS) == 0


@pytest.mark.parametrize("released", [True, False])
def test_event_of_a_stage_counts_from_its_release(db: Database, *, released: bool) -> None:
    db.queue()
    first = stage(db.main, "a", writer="v")
    event = db.main.one("select ev_id from pgq.event_1")
    db.main.insert("b")
    if released:
        assert commit_stage(db.main, first, writer="v")
    db.main.tick()
    batch = db.main.next()
    assert db.main.data(batch) == (["a", "b"] if released else ["b"])
    db.main.one(
        "select pgq.event_retry_raw('q', 'c', now(), %s, null, 1, 't', 'a', '', '', '', '')", event
    )
    assert states(db.main, event) == ["delivered" if released else "cancelled"]
    assert db.main.one(WAITS) == int(released)
