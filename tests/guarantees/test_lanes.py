"""Lanes: each event in one lane, one batch of a lane at a time, order per key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.guarantees.lanes import INSERT, SET, in_order, insert, runs
from tests.guarantees.sessions import refused

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database


def test_each_event_is_in_one_lane_and_each_key_too(db: Database) -> None:
    (run,) = runs(db, 1)
    events = insert(db.main, 1, 2)
    db.main.tick()
    lanes = {}
    while (taken := run.take_with_lane())[0] is not None:
        lanes[taken[1]] = run.events(taken[0])
        run.finish(taken[0])
    assert sorted(lanes) == [f"extra1-{number}-of-4" for number in range(1, 5)]
    assert sorted(event for lane in lanes.values() for event in lane) == sorted(events)
    keys = [{key for key, _ in lane} for lane in lanes.values()]
    assert sum(map(len, keys)) == len(set.union(*keys))


def test_lane_has_one_batch_open_at_a_time(db: Database) -> None:
    one, other = runs(db, lanes=1)
    insert(db.main, 1)
    db.main.tick()
    insert(db.main, 2)
    db.main.tick()
    batch = one.take()
    assert batch is not None
    assert other.take() is None
    assert one.take() == batch
    found = one.events(batch)
    one.finish(batch)
    found += other.drain()
    assert len(found) == 40
    assert in_order(found)


def test_events_without_a_key_are_spread(db: Database) -> None:
    (run,) = runs(db, 1)
    for number in range(40):
        db.main.insert(str(number))
    db.main.tick()
    sizes = []
    while (batch := run.take()) is not None:
        sizes.append(len(run.events(batch)))
        run.finish(batch)
    assert sum(sizes) == 40
    assert len(sizes) == 4


def test_change_of_the_number_keeps_the_order(db: Database) -> None:
    one, other = runs(db)
    insert(db.main, 1)
    db.main.tick()
    found = []
    batch = one.take()
    insert(db.main, 2)
    db.main.tick()
    assert db.main.one(SET, 3, "extra1") == 1
    found += other.drain()
    assert other.take() is None
    with refused("PQ021"):
        db.main.one(SET, 5, "extra1")
    found += one.events(batch)
    one.finish(batch)
    found += other.drain()
    assert in_order(found)
    assert len(found) == 40
    db.main.one(INSERT, "003", "key 1")
    db.main.tick()
    assert one.drain() == [("key 1", "003")]
    assert db.main.one("select count(*) from pgq.registration where sub_mode = 'lane'") == 3
