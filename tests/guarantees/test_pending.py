"""Events of transactions that were open at a consumer's tick are pending events, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.stages import commit_stage, open_stage, stage

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

PENDING = "select pending_events from pgq.get_consumer_info(%s, 'c')"
AT_LEAST = "select batch_id from pgq.next_batch_custom('q', 'c', null, %s, %s)"
SINCE = """
    select tick_id from pgq.tick join pgq.queue on queue_id = tick_queue
    where queue_name = 'q' and tick_time = pgq.get_waiting_since('q', 'c')"""
LISTED = """
    select array(select txid_snapshot_xip(tick_snapshot)) from pgq.tick
    join pgq.queue on queue_id = tick_queue where queue_name = 'q' order by tick_id desc limit 1"""


def pending(db: Database, queue: str = "q") -> int | None:
    """Return the consumer's pending events."""
    found: int | None = db.main.one(PENDING, queue)
    return found


def open_across_a_tick(db: Database, *data: str, listed: bool = True) -> Session:
    """Insert in a transaction that is open while the consumer takes the tick.

    The tick's snapshot lists it if a later transaction had begun by then, in any database.
    """
    late = db.open()
    is_listed = None
    while is_listed is not listed:
        late.rollback()
        late.begin()
        txid = late.one("select txid_current()")
        for each in data:
            late.insert(each)
        if listed:
            db.main.one("select txid_current()")
        assert db.main.deliver() == []
        is_listed = txid in db.main.one(LISTED)
    assert (pending(db), db.main.one(SINCE)) == (0, None)
    return late


@pytest.mark.parametrize("listed", [True, False])
def test_events_of_a_transaction_that_was_open_at_the_tick_are_pending(
    db: Database, listed: bool
) -> None:
    db.queue()
    late = open_across_a_tick(db, "a", "b", "c", listed=listed)
    db.main.tick()
    assert (pending(db), db.main.one(SINCE)) == (0, None)
    late.commit()
    assert (pending(db), db.main.one(SINCE)) == (0, None)  # no tick sees them yet
    seen = db.main.tick()
    db.main.tick()
    assert (pending(db), db.main.one(SINCE)) == (3, seen)
    assert db.main.drain() == ["a", "b", "c"]
    assert (pending(db), db.main.one(SINCE)) == (0, None)


def test_events_that_the_last_tick_does_not_see_are_not_pending(db: Database) -> None:
    db.queue()
    late, later = db.open(), db.open()
    for session in (late, later):
        session.begin()
        session.insert("a")
    db.main.deliver()
    late.commit()
    db.main.one("select txid_current()")
    db.main.tick()
    later.commit()
    assert pending(db) == 1
    db.main.tick()
    assert pending(db) == 2


def test_events_that_were_rolled_back_are_not_pending(db: Database) -> None:
    db.queue()
    late = open_across_a_tick(db, "a")
    late.rollback()
    db.main.tick()
    assert (pending(db), db.main.one(SINCE)) == (0, None)


def test_new_ids_count_as_before(db: Database) -> None:
    db.queue()
    late = open_across_a_tick(db, "a", "b")
    db.main.insert("c")
    moved = db.main.tick()
    late.commit()
    db.main.tick()
    assert (pending(db), db.main.one(SINCE)) == (1, moved)


def test_events_before_the_first_new_id_wait_for_longer(db: Database) -> None:
    db.queue()
    open_across_a_tick(db, "a").commit()
    seen = db.main.tick()
    db.main.run("select pgq.insert_event('q', 't', n::text) from generate_series(1, 1001) n")
    db.main.tick()
    assert db.main.one(SINCE) == seen


def test_a_thousand_events_are_counted_at_most(db: Database) -> None:
    db.queue()
    late = open_across_a_tick(db, "a")
    late.run("select pgq.insert_event('q', 't', n::text) from generate_series(1, 1000) n")
    db.main.deliver()
    late.commit()
    db.main.tick()
    assert pending(db) == 1000


def test_events_of_a_stage_are_pending_when_it_is_released(db: Database) -> None:
    db.queue()
    waiting = stage(db.open(), "a", "b")
    db.main.deliver()
    db.main.tick()
    assert pending(db) == 0
    late = db.open()
    late.begin()
    commit_stage(late, waiting)
    assert db.main.deliver() == []
    late.commit()
    seen = db.main.tick()
    assert (pending(db), db.main.one(SINCE)) == (2, seen)
    assert db.main.drain() == ["a", "b"]


def test_events_of_a_stage_that_waits_are_not_pending(db: Database) -> None:
    db.queue()
    late = db.open()
    late.begin()
    open_stage(late)
    late.insert("a")
    db.main.one("select txid_current()")
    assert db.main.deliver() == []
    late.commit()
    db.main.tick()
    assert pending(db) == 0


def test_open_batch_waits_even_if_it_is_empty(db: Database) -> None:
    db.queue()
    open_across_a_tick(db, "a").rollback()
    end = db.main.tick()
    batch = db.main.next()
    db.main.tick()
    assert (pending(db), db.main.one(SINCE)) == (0, end)
    db.main.finish(batch)
    assert db.main.one(SINCE) is None


def test_batch_of_a_minimum_has_events_that_were_open_at_its_first_tick(db: Database) -> None:
    db.queue()
    late = open_across_a_tick(db, "a", "b", "c")
    db.main.tick()
    assert db.main.one(AT_LEAST, 3, None) is None
    late.commit()
    db.main.tick()
    assert db.main.one(AT_LEAST, 4, None) is None
    assert db.main.one(AT_LEAST, 4, "1 hour") is None
    assert db.main.data(db.main.one(AT_LEAST, 3, None)) == ["a", "b", "c"]


def test_minimum_counts_events_with_new_ids_and_those_that_were_open(db: Database) -> None:
    db.queue()
    late = open_across_a_tick(db, "a", "b")
    db.main.tick_after("c")
    late.commit()
    db.main.tick()
    assert db.main.one(AT_LEAST, 4, None) is None
    assert db.main.data(db.main.one(AT_LEAST, 3, None)) == ["a", "b", "c"]


def test_locked_table_delays_no_list_and_hides_no_other_queue(db: Database) -> None:
    db.queue()
    db.queue("other")
    open_across_a_tick(db, "a").commit()
    db.main.tick()
    db.main.insert("a", "other")
    db.main.tick("other")
    holder = db.open()
    holder.begin()
    holder.run(f"lock table {holder.current_table()} in access exclusive mode")
    db.main.run("set statement_timeout = '5s'")
    assert (pending(db), pending(db, "other")) == (None, 1)
    assert db.main.one(SINCE) is None
    holder.rollback()
    assert pending(db) == 1
