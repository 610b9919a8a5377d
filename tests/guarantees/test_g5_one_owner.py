"""G5: who lost a batch gets an error from finish and retry, never a silent success."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from tests.guarantees.sessions import ISOLATIONS, RC, RR, refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.guarantees.sessions import Database, Row, Session


def _finished(session: Session, batch: int) -> None:
    assert session.finish(batch) == 1


def _repositioned(session: Session, batch: int) -> None:
    last = session.one("select prev_tick_id from pgq.get_batch_info(%s)", batch)
    assert session.one("select pgq.register_consumer_at('q', 'c', %s)", last) == 0


def _unregistered(session: Session, batch: int) -> None:
    assert session.one("select pgq.unregister_consumer('q', 'c')") == 1


def _registered_anew(session: Session, batch: int) -> None:
    _unregistered(session, batch)
    session.one("select pgq.register_consumer('q', 'c')")


LOST = pytest.mark.parametrize(
    "lose", [_finished, _repositioned, _unregistered, _registered_anew], ids=lambda f: f.__name__
)
SET_ASIDE = {
    "event_dead": "select pgq.event_dead(%(batch)s, array[%(id)s], array[%(txid)s], '{why}')",
    "event_retry one": "select pgq.event_retry(%(batch)s, %(id)s, 0)",
    "event_retry many": "select pgq.event_retry(%(batch)s, array[%(id)s], array[%(txid)s], '{0s}')",
    "batch_retry": "select pgq.batch_retry(%(batch)s, 0)",
}
SETTING_ASIDE = pytest.mark.parametrize("call", SET_ASIDE.values(), ids=SET_ASIDE.keys())


def _open_batch(db: Database, data: str = "a") -> tuple[int, Row]:
    db.queue()
    db.main.tick_after(data)
    batch = db.main.next()
    assert batch is not None
    return batch, db.main.events(batch)[0]


def _set_aside(session: Session, call: str, batch: int, event: Row) -> int:
    row = session.connection.execute(
        call.encode(), {"batch": batch, "id": event.id, "txid": event.txid}
    ).fetchone()
    assert row is not None
    return int(row[0])


def _left_over(session: Session) -> int:
    return int(
        session.one(
            "select (select count(*) from pgq.retry_queue) + (select count(*) from pgq.dead_event)"
        )
    )


@LOST
def test_lost_batch_is_not_finished(db: Database, lose: Callable[[Session, int], None]) -> None:
    batch, _ = _open_batch(db)
    loser = db.open()
    lose(db.main, batch)
    notices: list[str | None] = []
    loser.connection.add_notice_handler(lambda said: notices.append(said.severity_nonlocalized))
    assert loser.finish(batch) == 0
    assert notices == ["WARNING"]


@LOST
def test_lost_batch_is_neither_read_nor_are_its_events_set_aside(
    db: Database, subtests: pytest.Subtests, lose: Callable[[Session, int], None]
) -> None:
    batch, event = _open_batch(db)
    lose(db.main, batch)
    for name, call in SET_ASIDE.items():
        with subtests.test(name), refused("PQ003"):
            _set_aside(db.main, call, batch, event)
    with refused("PQ003"):
        db.main.events(batch)
    assert _left_over(db.main) == 0


@pytest.mark.parametrize(("end", "finished"), [("commit", 0), ("rollback", 1)])
def test_finish_that_waited_for_another_finish_fails_if_that_commits(
    db: Database, end: str, finished: int
) -> None:
    batch, _ = _open_batch(db)
    finish = db.behind(lambda one: one.finish(batch), "select pgq.finish_batch(%s)", batch, end=end)
    assert finish == finished


@SETTING_ASIDE
def test_setting_aside_that_waited_for_a_finish_fails(db: Database, call: str) -> None:
    batch, event = _open_batch(db)
    values = {"batch": str(batch), "id": str(event.id), "txid": str(event.txid)}
    with refused("PQ003"):
        db.behind(lambda one: one.finish(batch), call % values)
    assert _left_over(db.main) == 0


def test_finish_with_an_old_snapshot_of_a_finished_batch_fails(db: Database) -> None:
    batch, _ = _open_batch(db)
    loser = db.open()
    loser.begin(RR)
    assert db.main.finish(batch) == 1
    with refused("40001"):
        loser.finish(batch)


def test_setting_aside_with_an_old_snapshot_of_a_finished_batch_fails(db: Database) -> None:
    batch, event = _open_batch(db)
    losers = {name: db.open() for name in SET_ASIDE}
    for loser in losers.values():
        loser.begin(RR)
    assert db.main.finish(batch) == 1
    for name, loser in losers.items():
        with refused("40001"):
            _set_aside(loser, SET_ASIDE[name], batch, event)
        loser.rollback()
    assert _left_over(db.main) == 0


def test_old_snapshot_from_before_maint_positions_finishes_nothing(db: Database) -> None:
    batch, _ = _open_batch(db)
    loser = db.open()
    loser.begin(RR)
    assert db.main.finish(batch) == 1
    db.main.deliver()
    db.main.deliver()
    db.main.one("select pgq.maint_positions()")
    with refused("40001"):
        loser.finish(batch)


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_no_gap_that_two_maint_positions_leave_opens_a_lost_batch(
    db: Database, isolation: str
) -> None:
    batch, _ = _open_batch(db)
    loser, first = db.open(), db.open()
    loser.begin(isolation)
    _repositioned(db.main, batch)
    first.begin(RC)
    first.one("select pgq.maint_positions()")
    assert db.main.deliver() == ["a"]
    db.main.one("select pgq.maint_positions()")
    assert db.main.one("select queue_name from pgq.get_batch_info(%s)", batch) is None
    first.rollback()
    with refused("40001") if isolation != RC else nullcontext():
        assert loser.finish(batch) == 0


def test_whole_cycle_in_one_transaction(db: Database) -> None:
    db.queue()
    consumer = db.open()
    for number, call in enumerate(SET_ASIDE.values(), 1):
        db.main.tick_after("a")
        consumer.begin()
        batch = consumer.next()
        assert batch is not None
        (event,) = consumer.events(batch)
        assert _set_aside(consumer, call, batch, event) == 1
        assert _set_aside(consumer, call, batch, event) == 0
        assert consumer.finish(batch) == 1
        consumer.commit()
        assert consumer.next() is None, "nothing is new"
        assert _left_over(db.main) == number


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_batch_opened_before_is_set_aside_and_finished_in_any_isolation(
    db: Database, isolation: str
) -> None:
    batch, event = _open_batch(db)
    consumer = db.open()
    for number, call in enumerate(SET_ASIDE.values(), 1):
        consumer.begin(isolation)
        assert consumer.events(batch) == [event]
        assert _set_aside(consumer, call, batch, event) == 1
        assert _set_aside(consumer, call, batch, event) == 0
        assert _left_over(consumer) == 1
        if number < len(SET_ASIDE):
            consumer.rollback()
    assert consumer.finish(batch) == 1
    consumer.commit()
    assert db.main.deliver() == []
    db.main.one("select pgq.maint_retry_events()")
    assert db.main.deliver() == ["a"], "the call that was committed is batch_retry"
