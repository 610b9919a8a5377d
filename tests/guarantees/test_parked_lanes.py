"""Parked events of a consumer with lanes: each key in its lane, in order, whoever works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.guarantees.lanes import INSERT, SET, Run, runs

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

PARK = """
    select pgq.event_park(%s, array_agg(ev_id), array_agg(ev_txid), array_agg(ev_extra1),
        array_agg(%s::interval))
      from pgq.get_batch_events(%s) where ev_extra1 = 'a'
"""
TAKE = "select batch_id, worker from pgq.take_parked_lane('q', 'c', %s, 10)"


def insert(session: Session, *events: str) -> None:
    """Insert events such as a1: the key a, the payload 1; then tick."""
    for key, data in map(list, events):
        session.one(INSERT, data, key)
    session.tick()


def park_all(run: Run, delay: str | None) -> list[Any]:
    """Take all batches, park the events of key a, finish the others; return these."""
    found = []
    while (batch := run.take()) is not None:
        run.session.one(PARK, batch, delay, batch)
        found += [event for event in run.events(batch) if event[0] != "a"]
        run.finish(batch)
    return found


def take_parked(run: Run) -> int | None:
    """Take a batch of parked events of one lane."""
    batch: int | None = run.session.all(TAKE, run.holder)[0][0]
    return batch


def test_parked_events_come_in_their_lane_in_order(db: Database) -> None:
    one, other = runs(db)
    insert(db.main, "a1", "b1")
    assert park_all(one, "0") == [("b", "1")]
    insert(db.main, "a2", "b2")
    assert park_all(other, None) == [("b", "2")]
    batch = take_parked(one)
    assert one.events(batch) == [("a", "1")]
    assert take_parked(other) is None
    assert other.take() is None
    assert one.take() == batch
    assert one.finish(batch) == 1
    batch = take_parked(other)
    assert other.events(batch) == [("a", "2")]
    assert other.finish(batch) == 1
    assert db.main.one("select count(*) from pgq.parked") == 0


def test_no_event_of_the_lane_is_given_out_beside_parked_ones(db: Database) -> None:
    one, other = runs(db, lanes=1)
    insert(db.main, "a1")
    park_all(one, "0")
    batch = take_parked(one)
    insert(db.main, "a2")
    assert other.take() is None
    one.finish(batch)
    assert other.events(other.take()) == [("a", "2")]


def test_parked_events_go_to_the_new_lane_of_their_key(db: Database) -> None:
    one, other = runs(db)
    insert(db.main, "a1")
    park_all(one, "0")
    batch = take_parked(one)
    assert db.main.one(SET, 3, "extra1") == 1
    insert(db.main, "a2")
    assert other.take() is None  # the old lane is not at its end
    one.finish(batch)
    assert park_all(other, "0") == []
    assert other.events(take_parked(other)) == [("a", "2")]


def test_batch_of_a_dead_run_goes_on_with_what_is_parked_still(db: Database) -> None:
    one, other = runs(db)
    insert(db.main, "a1")
    park_all(one, "0")
    batch = take_parked(one)
    one.session.one("select pg_advisory_unlock_all()")
    taken = other.take()
    assert taken not in (None, batch)
    assert other.events(taken) == [("a", "1")]
    assert one.finish(batch) == 0
    assert other.finish(taken) == 1
    assert take_parked(one) is None


def test_a_head_that_a_run_has_is_not_deleted(db: Database) -> None:
    (run,) = runs(db, 1)
    insert(db.main, "a1")
    park_all(run, "0")
    take_parked(run)
    assert db.main.all("select pgq.delete_parked('q', 'c', '{a}')") == []
