"""Lanes: each event in one lane, one batch of a lane at a time, order per key; what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.guarantees.lanes import LANES, SET, TAKEN, held_look, in_order, insert, runs
from tests.guarantees.sessions import refused
from tests.support.gates import wait_until_blocked

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


FILTER = "select pgq.set_consumer_filter('q', 'c', %s::jsonb)"
ALL, OTHER = '{"types": ["t"]}', '{"types": ["other"]}'
AGED = "update pgq.tick set tick_time = tick_time - interval '1 minute'"  # a lane passes over these


def test_filter_changed_between_look_and_lock_passes_over_nothing(db: Database) -> None:
    (run,) = runs(db, 1, lanes=1)
    insert(db.main, 1)
    db.main.tick()
    db.main.run(AGED)
    db.main.one(FILTER, OTHER)
    with held_look(db, run) as gate:
        late = run.take_later()
        gate.wait_for_arrival()
        assert db.main.one(FILTER, ALL) == 1
        gate.open()
        assert late.result(timeout=30) is None
    assert len(run.drain()) == 20


@pytest.mark.parametrize("back", [False, True])
def test_filter_changed_between_two_looks_passes_over_nothing(db: Database, *, back: bool) -> None:
    (run,) = runs(db, 1, lanes=1)
    insert(db.main, 1)
    db.main.tick()
    db.main.run(AGED)
    db.main.one(FILTER, ALL)
    asking = "select batch_id from pgq.take_lane('q', 'c', %s, i_filter => %s)"
    with held_look(db, run, "check_asked_filter") as first, held_look(db, run) as second:
        late = run.session.later(asking, run.holder, Jsonb({"types": ["t", "t"]}))
        first.wait_for_arrival()
        assert db.main.one(FILTER, OTHER) == 1
        first.open()
        second.wait_for_arrival()
        if back:
            assert db.main.one(FILTER, ALL) == 1
        second.open()
        assert late.result(timeout=30) is None
    db.main.one(FILTER, ALL)
    assert len(run.drain()) == 20


OLD = "update pgq.tick set tick_time = tick_time - interval '1 hour'"  # a look passes old ticks


@pytest.mark.parametrize("looked", [False, True])
def test_look_that_waits_for_a_repair_skips_no_event(db: Database, looked: bool) -> None:
    (run,) = runs(db, 1)
    if looked:  # its session does not check the queue again
        insert(db.main, 1)
        db.main.tick()
        run.drain()
    events = insert(db.main, 2)
    db.main.tick()
    db.main.run(OLD)
    db.main.begin()
    db.main.one("select pgq.repair_queue('q')")
    look = run.take_later()
    wait_until_blocked(db.main.connection, run.session.pid)
    db.main.commit()
    found = run.events(batch := look.result(60))
    assert batch is None or run.finish(batch) == 1
    assert sorted(found + run.drain()) == sorted(events)


LANE = "c.extra1-1-of-4"
REFUSED: list[tuple[str, str]] = [
    ("PQ002", "select pgq.set_lanes('q', 'nobody', 4, 'extra1')"),
    ("PQ002", "select pgq.set_lanes('none', 'c', 4, 'extra1')"),
    ("PQ001", "select pgq.register_lanes('none', 'c', 4, 'extra1')"),
    ("PQ002", "select pgq.take_lane('q', 'nobody', 'host:1:x')"),
    ("PQ009", "select pgq.set_lanes('q', 'c', 0, 'extra1')"),
    ("PQ009", "select pgq.set_lanes('q', 'c', 1025, 'extra1')"),
    ("PQ009", "select pgq.set_lanes('q', 'c', null, 'extra1')"),
    ("PQ009", "select pgq.set_lanes('q', 'c', 4, 'data')"),
    ("PQ009", "select pgq.set_lanes('q', 'c', 4, null)"),
    ("PQ009", "select pgq.take_lane('q', 'c', '')"),
    ("PQ009", "select pgq.take_lane('q', 'c', null)"),
    ("PQ009", "select pgq.take_lane('q', 'c', 'host:1:x', i_wanted => 0)"),
    ("PQ009", "select pgq.take_lane('q', 'c', 'host:1:x', i_filter => '[]')"),
    ("PQ021", """select pgq.take_lane('q', 'c', 'host:1:x', i_filter => '{"types": ["a"]}')"""),
    ("PQ020", "select pgq.take_lane('q', 'c', 'host:1:x', i_key => 'extra2')"),
    ("PQ020", f"select pgq.take_lane('q', '{LANE}', 'host:1:x')"),
    ("PQ020", f"select pgq.set_lanes('q', '{LANE}', 2, 'extra1')"),
    ("PQ020", f"select pgq.register_lanes('q', '{LANE}', 2, 'extra1')"),
    ("PQ020", f"select pgq.set_consumer_mode('q', '{LANE}', 'plain')"),
    ("PQ020", f"select pgq.set_consumer_filter('q', '{LANE}', null)"),
    ("PQ020", f"select pgq.unregister_consumer('q', '{LANE}')"),
    ("PQ020", f"select pgq.register_consumer_at('q', '{LANE}', 1)"),
    ("PQ020", f"select pgq.next_batch('q', '{LANE}')"),
    ("PQ020", f"select pgq.begin_run('q', '{LANE}', 'host:1:x')"),
    ("PQ020", f"select pgq.advance_subscription('q', '{LANE}', 1, 2)"),
    ("PQ020", f"select pgq.pin_range('q', '{LANE}', 1, 2)"),
    ("PQ020", "select pgq.next_batch('q', 'c')"),
    ("PQ020", "select pgq.begin_run('q', 'c', 'host:1:x')"),
    ("PQ020", "select pgq.advance_subscription('q', 'c', 1, 2)"),
    ("PQ020", "select pgq.register_subconsumer('q', 'c', '1')"),
    ("PQ020", "select pgq.register_shared_consumer('q', 'c')"),
    ("PQ020", "select pgq.receive('q', 'c')"),
    ("PQ020", "select pgq.take_part('q', 'c', null, 'host:1:x', '1 minute')"),
    ("PQ021", "select pgq.set_consumer_mode('q', 'c', 'plain')"),
]


def test_calls_that_do_not_fit_are_refused(db: Database) -> None:
    runs(db, 0)
    insert(db.main, 1)
    db.main.tick()
    found = []
    for _, call in REFUSED:
        with pytest.raises(psycopg.Error) as failed:
            db.main.run(call)
        found.append((failed.value.sqlstate, call))
    assert found == REFUSED


def test_lane_is_no_worker(db: Database) -> None:
    runs(db, 0)
    call = "select pgq.unregister_subconsumer('q', 'c', 'extra1-1-of-4', 1)"
    assert db.main.one(call) == 0
    assert db.main.one(LANES) == 4


def test_lane_does_not_take_the_name_of_another_consumer(db: Database) -> None:
    db.queue(consumers=("c", LANE))
    with refused("PQ009"):
        db.main.one(SET, 4, "extra1")
    assert db.main.one(LANES) == 0
    long = "x" * 250
    db.main.one("select pgq.register_consumer('q', %s)", long)
    with refused("PQ009"):
        db.main.one("select pgq.set_lanes('q', %s, 4, 'extra1')", long)


def test_plain_and_shared_consumers_are_taken_by_no_lane(db: Database) -> None:
    db.queue(consumers=("c", "p", "s"))
    for name, mode in [("p", "plain"), ("s", "shared")]:
        db.main.one("select pgq.set_consumer_mode('q', %s, %s)", name, mode)
        with refused("PQ020"):
            db.main.one("select pgq.register_lanes('q', %s, 4, 'extra1')", name)
    for name in ("c", "p", "s"):
        with refused("PQ020"):
            db.main.one(TAKEN, name)
