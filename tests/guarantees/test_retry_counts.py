"""Retried events are counted by when they are due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.guarantees.sessions import refused

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

RETRY = """
    select pgq.event_retry(%s, array_agg(ev_id order by ev_id), array_agg(ev_txid order by ev_id),
        '{0,30 s,30 min,2 h,9 h,2 days}'::interval[])
      from pgq.get_batch_events(%s)"""
COUNTS = "select due_within::text, retry_events from pgq.get_retry_counts('q', %s, %s)"


def test_each_event_is_counted_where_it_is_due(db: Database) -> None:
    db.queue()
    db.main.one("select pgq.register_consumer('q', 'other')")
    for number in range(6):
        db.main.insert(str(number))
    db.main.tick()
    for consumer in ("c", "other"):
        batch = db.main.next(consumer)
        assert db.main.one(RETRY, batch, batch) == 6
    rows = [("00:00:00", 1), ("00:01:00", 1), ("01:00:00", 1), ("1 day", 2), (None, 1)]
    assert db.main.all(COUNTS, "c", None) == rows
    assert sum(count for _, count in db.main.all(COUNTS, "c", 4)) == 4
    with refused("PQ002"):
        db.main.all(COUNTS, "nobody", None)
