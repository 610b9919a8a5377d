"""The order in which locks are taken, so that nobody deadlocks with a queue that is dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

HELD = """
    select count(*) from pg_locks
    where pid = %s and granted and relation = 'pgq.event_1_id_seq'::regclass
"""


@pytest.mark.parametrize(
    "call",
    [
        "select pgq.insert_event('q', 't', 'd')",
        "select count(*) from pgq.insert_events('q', array['t'], array['d'])",
        "select pgq.insert_event_raw('q', 7, now(), null, 0, 't', 'd', '', '', '', '')",
        "select pgq.maint_retry_events()",
    ],
)
def test_insert_locks_the_table_before_the_sequence_as_a_drop_does(db: Database, call: str) -> None:
    db.queue()
    db.main.insert("a")
    db.main.tick()
    db.main.one("select pgq.batch_retry(%s, 0)", db.main.next())
    locker, producer = db.open(), db.open()
    locker.begin()
    locker.run("lock table pgq.event_1_0 in share mode")
    inserted = producer.later(call)
    wait_until_blocked(db.main.connection, producer.pid)
    assert db.main.one(HELD, producer.pid) == 0
    locker.commit()
    assert inserted.result(timeout=30)


def test_ticker_leaves_a_queue_alone_that_somebody_has(db: Database) -> None:
    db.queue(ticker_max_lag="0")
    db.main.insert("a")
    owner = db.open()
    owner.begin()
    owner.one("select pgq.maint_ticks('q')")
    assert db.main.one("select pgq.ticker('q')") is None  # a drop would wait for its locks
    owner.commit()
    assert db.main.one("select pgq.ticker('q')") is not None
