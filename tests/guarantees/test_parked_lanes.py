"""Parked events of a consumer with lanes: each key in its lane, in order, whoever works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.guarantees.lanes import INSERT, SET, Run, runs
from tests.guarantees.sessions import refused

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


def test_failed_event_behind_a_failed_one_waits_without_an_error(db: Database) -> None:
    """A client may have read it before the other one failed."""
    (run,) = runs(db, 1)
    insert(db.main, "a1", "a2", "a3")
    park_all(run, None)
    batch = take_parked(run)
    ids = [event.id for event in run.session.events(batch)]
    for number in ids[1:]:
        txid = run.session.one("select ev_txid from pgq.parked where ev_id = %s", number)
        call = "select pgq.event_park(%s, %s, %s, '{a}', '{1 hour}')"
        assert run.session.one(call, batch, [number], [txid]) == 1
    run.finish(batch)
    left = db.main.one("select array_agg(ev_id order by ev_id) from pgq.parked")
    assert left == ids[1:]


def test_what_failed_does_not_come_again_at_once_after_a_takeover(db: Database) -> None:
    one, other = runs(db)
    insert(db.main, "a1", "a2")
    park_all(one, None)
    batch = take_parked(one)
    first, last = (event.id for event in one.session.events(batch))
    txid = one.session.one("select ev_txid from pgq.parked where ev_id = %s", last)
    one.session.one("select pgq.event_park(%s, %s, %s, '{a}', '{1 hour}')", batch, [last], [txid])
    one.session.one("select pg_advisory_unlock_all()")
    taken = other.take()
    assert [event.id for event in other.session.events(taken)] == [first]


def test_nothing_is_parked_while_the_key_changes(db: Database) -> None:
    """A key could be parked in an old lane and in a new one at the same time."""
    one, other = runs(db)
    insert(db.main, "a1")
    batch = one.take()
    assert db.main.one(SET, 4, "extra2") == 1
    assert one.session.one(PARK, batch, "0", batch) == 1
    one.finish(batch)
    assert db.main.one("select count(*) from pgq.parked") == 0
    assert db.main.one("select count(*) from pgq.retry_queue") == 1
    assert other.take() is None


def test_key_of_lanes_with_parked_events_is_not_changed(db: Database) -> None:
    (run,) = runs(db, 1)
    insert(db.main, "a1")
    park_all(run, "0")
    with refused("PQ021"):
        db.main.one(SET, 4, "extra2")
    assert db.main.one(SET, 3, "extra1") == 1
