"""G3: a transaction with an old snapshot is never given a part of a batch, or none of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.sessions import RC, RR, refused

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

READS = {
    "get_batch_events": "select count(*) from pgq.get_batch_events(%(batch)s)",
    "get_batch_cursor": "select count(*) from pgq.get_batch_cursor(%(batch)s, 'cursor', 10)",
    "batch_event_sql": "select pgq.batch_event_sql(%(batch)s)",
    "event_retry one": "select pgq.event_retry(%(batch)s, %(id)s, 0)",
    "event_retry many": "select pgq.event_retry(%(batch)s, array[%(id)s], array[%(txid)s], '{0s}')",
    "batch_retry": "select pgq.batch_retry(%(batch)s, 0)",
    "event_dead": "select pgq.event_dead(%(batch)s, array[%(id)s], array[%(txid)s], '{why}')",
}


def _rotate_until_empty(db: Database) -> None:
    """Rotate until every table that there was is truncated."""
    for _ in range(3):
        db.main.deliver()
        db.main.rotate()
    assert db.main.one("select count(*) from pgq.event_1") == 0


def test_batch_that_was_finished_and_rotated_away_is_refused(
    db: Database, subtests: pytest.Subtests
) -> None:
    db.queue()
    db.main.insert("a")
    db.main.tick()
    batch = db.main.next()
    (event,) = db.main.events(batch)
    args = {"batch": batch, "id": event.id, "txid": event.txid}
    readers = {name: db.open() for name in READS}
    for reader in readers.values():
        reader.begin(RR)
    assert db.main.finish(batch) == 1
    _rotate_until_empty(db)
    for name, reader in readers.items():
        with subtests.test(name), refused("40001"):
            reader.connection.execute(READS[name].encode(), args)


@pytest.mark.parametrize("isolation", [RC, RR])
def test_batch_that_is_open_is_read_whatever_was_rotated_before(
    db: Database, isolation: str
) -> None:
    db.queue()
    _rotate_until_empty(db)
    db.main.insert("a")
    db.main.tick()
    batch = db.main.next()
    reader = db.open()
    reader.begin(isolation)
    assert reader.data(batch) == ["a"]
    current = db.main.one("select queue_cur_table from pgq.queue")
    assert db.main.rotate() == current, "not while somebody reads"
    assert reader.finish(batch) == 1
    reader.commit()
