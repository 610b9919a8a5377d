"""Cancellations later: consumers that move back, rotation, repair, dumps, dead rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.guarantees.cancelling import ROWS, cancel, retry, states
from tests.guarantees.sessions import MORE_PAGES, RR, Database
from tests.guarantees.stages import commit_stage, stage

if TYPE_CHECKING:
    from tests.guarantees.sessions import Session

CANCEL_ALL = "select count(*) from pgq.cancel_event('q', array(select ev_id from pgq.event_1))"
BACK = "select pgq.register_consumer_at('q', 'c', 1)"
DEAD = """
    select pgq.event_dead(%s, array[ev_id], array[ev_txid], array['why'])
      from pgq.get_batch_events(%s)"""
INSERT_MANY = "select count(pgq.insert_event('q', 't', 'x')) from generate_series(1, 5000)"


def _pages(session: Session, query: str) -> int:
    """Return how many pages a query reads; the second time, as the first may learn something."""
    session.one(query)
    return session.pages(query)


def _open_and_read(db: Database) -> int:
    """Open and finish a batch with one event; return the pages that it cost to find its query."""
    db.main.tick_after("a")
    batch = db.main.next()
    pages = _pages(db.main, f"select pgq.batch_event_sql({batch})")
    assert db.main.data(batch) == ["a"]
    assert db.main.finish(batch) == 1
    return pages


def _cancel_one(db: Database) -> int:
    """Cancel a new event; return the pages that it cost."""
    db.main.tick()
    event = db.main.insert("b")
    return _pages(db.main, f"select pgq.cancel_event('q', '{{{event}}}')")


def test_batch_reads_no_more_pages_after_many_cancellations_while_xmin_is_held(
    db: Database,
) -> None:
    db.queue()
    before, cancelling = _open_and_read(db), _cancel_one(db)
    db.open().begin(RR)
    for _ in range(5):
        db.main.one(INSERT_MANY)
        db.main.one(CANCEL_ALL)
        assert db.main.deliver() == []
        db.main.rotate()
        while db.main.one("select pgq.maint_skipped_events()"):
            pass
    assert _open_and_read(db) <= before + MORE_PAGES
    assert db.main.one(ROWS) < 20000, "most are deleted"
    assert _cancel_one(db) <= cancelling + 3 * MORE_PAGES


def test_rows_go_when_nobody_can_be_moved_back_to_them(db: Database) -> None:
    db.queue(consumers=("c", "d"))
    for turn in range(8):
        ids = [db.main.insert(f"{turn}"), db.main.insert("cancelled")]
        cancel(db.main, ids[1])
        assert db.main.deliver() == [f"{turn}"]
        db.main.one("select pgq.maint_skipped_events()")
        first = db.main.one("select queue_low_tick from pgq.queue where queue_id = 1")
        db.main.one("select pgq.register_consumer_at('q', 'd', %s)", max(first, 1))
        assert "cancelled" not in db.main.drain("d")
        db.main.tick()
        db.main.drain()
        db.main.drain("d")
        db.main.rotate()
    assert db.main.one(ROWS) < 10


def test_row_of_a_stage_that_waits_stays(db: Database) -> None:
    db.queue()
    waits = stage(db.main, "hidden", "kept")
    (event, _) = [row[0] for row in db.main.all("select ev_id from pgq.event_1 order by 1")]
    assert states(db.main, event) == ["cancelled"]
    for _ in range(4):
        states(db.main, db.main.insert("a"))
        assert db.main.deliver() == []
        db.main.rotate()
    assert db.main.one("select queue_low_tick from pgq.queue where queue_id = 1") > 1
    db.main.one("select pgq.maint_skipped_events()")
    assert commit_stage(db.main, waits)
    assert db.main.deliver() == ["kept"]


def test_rows_go_with_their_consumer_and_their_queue(db: Database) -> None:
    db.queue(consumers=("c", "d"))
    cancel(db.main, db.main.insert("a"))
    assert db.main.one(ROWS) == 2
    db.main.one("select pgq.unregister_consumer('q', 'd')")
    assert db.main.one(ROWS) == 1
    db.main.one("select pgq.drop_queue('q', true)")
    assert db.main.one("select count(*) from pgq.skipped_event") == 0


def test_cancellation_survives_a_repair(db: Database) -> None:
    db.queue()
    db.main.one("select pgq.register_consumer('q', 'd')")
    staged = stage(db.main, "s", "t")
    hidden = [row[0] for row in db.main.all("select ev_id from pgq.event_1 order by 1")][:1]
    for data in "abcd":
        event = db.main.insert(data)
        hidden += [event] if data in "ac" else []
        db.main.tick()
        if data == "b":
            batch = db.main.next()
            assert db.main.data(batch) == ["a"]
    assert commit_stage(db.main, staged)
    db.main.tick()
    cancel(db.main, *hidden)
    db.main.one("select pgq.repair_queue('q')")
    assert db.main.data(db.main.next()) == ["a"]
    assert sorted(db.main.drain()) == ["a", "b", "d", "t"]
    assert sorted(db.main.drain("d")) == ["b", "d", "t"]


def test_cancelled_retry_hides_neither_its_event_nor_another_retry_after_a_repair(
    db: Database,
) -> None:
    db.queue(consumers=("c", "at the beginning"))
    event = db.main.insert("a")
    db.main.tick()
    for cancelled in (True, False):
        db.main.one(BACK)
        batch = db.main.next()
        assert db.main.data(batch) == ["a"]
        retry(db.main, batch, "a")
        assert db.main.finish(batch) == 1
        assert db.main.drain() == []
        assert db.main.one("select pgq.maint_retry_events()") == 1
        if cancelled:
            assert states(db.main, event) == ["cancelled", "cancelled"]
        db.main.tick()
    for _ in range(2):
        db.main.one("select pgq.repair_queue('q')")
        assert db.main.drain() == ([] if cancelled else ["a"])
        cancelled = True
    db.main.one(BACK)
    assert db.main.drain() == ["a", "a"], "the event, and the retry that was not cancelled"
    assert db.main.drain("at the beginning") == []


def test_cancelled_event_does_not_hide_its_revived_copy_after_a_repair(db: Database) -> None:
    db.queue(consumers=("c", "at the beginning"))
    event = db.main.insert("a")
    db.main.tick()
    batch = db.main.next()
    assert db.main.one(DEAD, batch, batch) == 1
    db.main.finish(batch)
    db.main.one(BACK)
    assert "cancelled" in states(db.main, event)
    assert db.main.one("select count(*) from pgq.revive_dead_events('q', 'c')") == 1
    db.main.one("select pgq.maint_retry_events()")
    db.main.tick()
    for _ in range(2):
        db.main.one("select pgq.repair_queue('q')")
    assert db.main.drain() == ["a"]
    assert db.main.drain("at the beginning") == []
