"""G7: calls that an unrepaired queue refuses, as the repair could not tell what they did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.guarantees.sessions import refused
from tests.guarantees.test_g7_unrepaired import CONSUMERS, REPAIR, larger, larger_elsewhere

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

RAW_EVENT = "select pgq.insert_event_raw('q', %s, null, null, 0, 't', 'raw', '', '', '', '')"


@pytest.mark.parametrize("restore", [larger, larger_elsewhere])
def test_event_with_an_older_id_waits_for_the_repair(db: Database, restore: Any) -> None:
    db.queue(consumers=CONSUMERS)
    older = db.main.one("select nextval('pgq.event_1_id_seq')")
    db.main.insert("newer")
    assert db.main.deliver() == ["newer"]
    restore(db)
    with refused("PQ012"):
        db.main.one(RAW_EVENT, older)
    db.main.one(REPAIR)
    assert db.main.one(RAW_EVENT, older) == older
    db.main.tick()
    assert sorted(db.main.drain("c")) == ["raw", "since"]


def test_event_with_an_older_id_waits_for_the_ticks_of_a_restore(db: Database) -> None:
    db.queue()
    older = db.main.one("select nextval('pgq.event_1_id_seq')")
    db.main.run("delete from pgq.tick; update pgq.queue set queue_system_id = 1")
    with refused("PQ012"):
        db.main.one(RAW_EVENT, older)


def test_retried_events_do_not_come_beside_their_events_after_a_seek(db: Database) -> None:
    db.queue(consumers=CONSUMERS)
    db.main.insert("a")
    db.main.tick()
    batch = db.main.next("c")
    db.main.one("select pgq.batch_retry(%s, 0)", batch)
    db.main.finish(batch)
    assert db.main.one("select pgq.maint_retry_events()") == 1
    db.main.tick()
    larger(db)
    seek = "select pgq.seek_consumer('q', 'c', 1)"
    with refused("PQ012"):
        db.main.one(seek)
    db.main.one(REPAIR)
    db.main.one(seek)
    db.main.tick()
    assert sorted(db.main.drain("c")) == ["a", "since"]
