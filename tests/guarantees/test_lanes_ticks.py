"""Lanes and ticks: limits, merged ticks, retries, rotation, compaction, moves, repairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.guarantees.lanes import INSERT, KEYS, LANES, SET, held_look, in_order, insert, runs
from tests.guarantees.sessions import refused
from tests.guarantees.workers import SLOWEST
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.guarantees.lanes import Run
    from tests.guarantees.sessions import Database

LIMITED = """
    select batch_id, prev_tick_id, cur_tick_id from pgq.take_lane('q', 'c', %s, null, null,
        %s::interval, %s, %s::interval, %s)
"""
SEEK = "select pgq.register_consumer_at('q', 'c', %s)"
REPAIR = "select pgq.repair_queue('q')"
ONE_SECOND = "update pgq.tick set tick_time = '2026-01-01 12:00:00.5'"
TICKS = "select array_agg(tick_id order by tick_id) from pgq.tick"
OTHER_HASH = """
    create or replace function pgq.key_hash() returns bigint language sql stable as 'select 1::int8'
"""
# The ids of a dump were larger by a million: those of its events and of its ticks.
LARGER = """
    update pgq.event_1 set ev_txid = ev_txid + 1000000;
    update pgq.tick
       set tick_snapshot = format('%s:%s:', 1000000 + txid_snapshot_xmin(tick_snapshot),
               1000000 + txid_snapshot_xmax(tick_snapshot))::txid_snapshot;
    update pgq.queue set queue_system_id = 1
"""


def ticked(db: Database, *numbers: int) -> None:
    """Insert events, and tick after those of each number."""
    for number in numbers:
        insert(db.main, number)
        db.main.tick()


def take(run: Run, lag: Any = None, count: Any = None, interval: Any = None, n: Any = None) -> Any:
    """Take a batch within limits: the batch and its two ticks."""
    return run.session.all(LIMITED, run.holder, lag, count, interval, n)[0]


def test_ticks_are_merged_while_a_lane_is_behind(db: Database) -> None:
    (run,) = runs(db, 1)
    for number in range(1, 6):
        ticked(db, number)
    batch, first, last = take(run, n=10)
    assert (first, last) == (1, 3), "40 events for four lanes"
    assert run.finish(batch) == 1
    assert take(run)[1:] == (1, 6), "the lane that is behind, up to the last tick"


def test_merged_ticks_are_a_hundred_at_most(db: Database) -> None:
    (run,) = runs(db, 1, lanes=1)
    for _ in range(110):
        db.main.one(INSERT, "001", "key 1")
        db.main.tick()
    batch, first, last = take(run)
    assert (first, last) == (1, 101)
    assert len(run.events(batch)) == 100
    assert run.finish(batch) == 1
    assert len(run.drain()) == 10


def test_lane_without_events_does_not_stay_behind_where_ticks_come_again_and_again(
    db: Database,
) -> None:
    (one,) = runs(db, 1)
    for number in range(3):
        db.main.one(INSERT, str(number), "key")
        db.main.tick()
    db.main.run("update pgq.tick set tick_time = now() - interval '1 minute' where tick_id < 3")
    assert one.drain() == [("key", "0"), ("key", "1"), ("key", "2")]
    behind = "select count(*) from pgq.current_position where pos_last_tick = 1 and sub_parent > 0"
    assert db.main.one(behind) == 0


def test_limits_hold_for_the_events_of_the_queue(db: Database) -> None:
    (run,) = runs(db, 1)
    ticked(db, 1)
    assert take(run, "1 hour")[0] is None
    assert take(run, None, 21)[0] is None
    assert take(run, None, 21, "1 hour")[0] is None
    assert take(run, "0 s", 20)[0] is not None
    ticked(db, 2, 3)
    db.main.run("update pgq.tick set tick_time = tick_time - interval '2 hours' where tick_id < 4")
    other = db.open()
    batches = other.all(LIMITED, "host:2:x", "1 hour", None, None, None)
    assert batches[0][1:] == (1, 3), "the last tick is too young"


def test_limits_do_not_keep_a_change_waiting(db: Database) -> None:
    one, other = runs(db)
    ticked(db, 1)
    batch = one.take()
    assert db.main.one(SET, 3, "extra1") == 1
    assert one.finish(batch) == 1
    for _ in range(3):
        batch = take(other, None, 1000)[0]
        assert batch is not None
        assert other.finish(batch) == 1
    assert take(other, None, 1000)[0] is None
    assert db.main.one(LANES) == 3


def test_retried_event_comes_in_the_lane_of_its_key_whatever_the_filter_is(db: Database) -> None:
    (run,) = runs(db, 1, lanes=3)
    ticked(db, 1)
    lanes: dict[str, str] = {}
    retry = """
        select pgq.event_retry(%s, array_agg(ev_id), array_agg(ev_txid), array_agg(interval '0'))
          from pgq.get_batch_events(%s)"""
    dead = """
        select pgq.event_dead(%s, array_agg(ev_id), array_agg(ev_txid), array_agg('why'::text))
          from pgq.get_batch_events(%s)"""
    for call in (retry, dead, retry):
        batch, lane = run.take_with_lane()
        lanes.update({key: lane for key, _ in run.events(batch)})
        assert run.session.one(call, batch, batch) > 0
        assert run.finish(batch) == 1
    owner = "select sub_id from pgq.registration where sub_mode = 'lanes'"
    assert db.main.all("select distinct ev_owner from pgq.retry_queue") == db.main.all(owner)
    filtered = """select pgq.set_consumer_filter('q', 'c', '{"types": ["other"]}')"""
    assert db.main.one(filtered) == 1
    assert db.main.all("select pgq.revive_dead_events('q', 'c')")
    assert db.main.one("select pgq.maint_retry_events()") == 20
    ticked(db, 2)
    again = {}
    while (batch := (taken := run.take_with_lane())[0]) is not None:
        again.update({key: taken[1] for key, data in run.events(batch) if data == "001"})
        assert run.finish(batch) == 1
    assert again == lanes
    assert len(lanes) == 20


def test_lane_that_is_behind_holds_the_rotation(db: Database) -> None:
    one, other = runs(db)
    ticked(db, 1)
    batch = one.take()
    expected = one.events(batch)
    others = other.drain()
    for number in (2, 3, 4):
        db.main.rotate()
        ticked(db, number)
        other.drain()
    assert db.main.one(SLOWEST) == 1
    assert one.events(batch) == expected
    assert len(others + expected) == 20
    assert one.finish(batch) == 1
    one.drain()
    before = db.main.rotate()
    assert db.main.rotate() != before, "the consumer itself has no position, and holds nothing"
    assert db.main.one("select count(*) from pgq.event_1") < 80


def test_compaction_keeps_what_lanes_need(db: Database) -> None:
    one, other = runs(db, lanes=2)
    ticked(db, *range(1, 7))
    batch, *_ = take(one, n=1)
    assert other.finish(take(other, n=30)[0]) == 1
    held, first, last = take(other, n=30)
    assert db.main.one(SET, 3, "extra1") == 1
    ticked(db, 7, 8)
    found = one.events(batch)
    db.main.run(ONE_SECOND)
    assert db.main.one("select pgq.compact_positions()") is True
    assert db.main.one("select pgq.compact_ticks()") is True
    assert set(db.main.one(TICKS)) >= {1, 2, first, last}
    assert db.main.one("select pgq.maint_ticks('q')") == 0
    assert one.events(batch) == found
    assert one.finish(batch) == 1
    assert other.finish(held) == 1
    done = db.main.all(
        "select pos_last_tick from pgq.current_position where sub_parent is not null"
    )
    assert (last,) in done
    rest = one.drain() + other.drain()
    assert in_order(found + rest)
    assert {data for _, data in rest} >= {"007", "008"}


@pytest.mark.parametrize("changing", [False, True])
def test_moved_consumer_moves_all_its_lanes(db: Database, *, changing: bool) -> None:
    one, other = runs(db)
    ticked(db, 1, 2)
    found = one.drain()
    ticked(db, 3)
    batch = one.take()
    if changing:
        assert db.main.one(SET, 3, "extra1") == 1
    assert db.main.one(SEEK, None) == 0
    assert one.events(batch), "it stays where it is"
    assert db.main.one(SEEK, 2) == 0
    assert one.finish(batch) == 0
    again = other.drain()
    assert in_order(found)
    assert sorted(again) == sorted((key, data) for key in KEYS for data in ("002", "003"))
    assert in_order(again)
    assert db.main.one(LANES) == (3 if changing else 4)
    with refused("PQ005"):
        db.main.one(SEEK, 100)


def test_moved_lane_is_not_opened_by_a_look_from_before(db: Database) -> None:
    one, other = runs(db, lanes=1)
    ticked(db, 1)
    with held_look(db, one) as gate:
        late = one.take_later()
        gate.wait_for_arrival()
        ticked(db, 2)
        assert db.main.one(SEEK, 3) == 0
        gate.open()
        assert late.result(timeout=30) is None
    assert other.drain() == []


@pytest.mark.alone
def test_ticks_of_moved_lanes_may_be_gone_for_a_look_from_before(db: Database) -> None:
    one, other = runs(db)
    db.main.one("select pgq.set_queue_config('q', 'rotation_period', '0')")
    ticked(db, 1)
    other.session.begin()
    other.session.run("lock table only pgq.event_1")
    late = one.take_later()
    wait_until_blocked(db.main.connection, one.session.pid)
    for _ in range(3):
        assert db.main.one(SEEK, db.main.one("select max(tick_id) from pgq.tick")) == 0
        db.main.rotate()
        db.main.tick()
    db.main.one("select pgq.maint_ticks('q')")
    assert db.main.one("select min(tick_id) from pgq.tick") > 1
    other.session.rollback()
    assert late.result(timeout=30) is None
    ticked(db, 2)
    assert sorted(other.drain()) == sorted((key, "002") for key in KEYS)


def test_restored_lanes_go_on_after_a_repair_in_a_change(db: Database) -> None:
    one, other = runs(db)
    ticked(db, 1)
    batch = one.take()
    found = other.take_and_read()
    assert db.main.one(SET, 3, "extra1") == 1
    ticked(db, 2)
    db.main.run(LARGER)
    reader = db.open()
    with refused("PQ012"):
        reader.data(batch)
    with refused("PQ012"):
        db.main.tick()
    assert db.main.one(REPAIR) > 0
    assert one.finish(batch) == 0, "it has a new id"
    one.die()
    ticked(db, 3)
    found += other.drain()
    assert sorted(found) == sorted((key, f"00{n}") for key in KEYS for n in (1, 2, 3))
    assert in_order(found)


def test_other_hash_stops_the_lanes_until_they_are_moved(db: Database) -> None:
    one, other = runs(db)
    ticked(db, 1)
    batch = one.take()
    other.take_and_read()
    db.main.run(OTHER_HASH)
    before = db.main.one("select sum(pos_no) from pgq.current_position")
    for lanes in (4, 3):
        with refused("PQ012"):
            db.main.one(SET, lanes, "extra1")
    with refused("PQ012"):
        other.take()
    with refused("PQ012"):
        one.events(batch)
    assert db.main.one("select sum(pos_no) from pgq.current_position") == before
    assert db.main.one(SEEK, 1) == 0
    assert one.finish(batch) == 0
    assert sorted(other.drain()) == sorted((key, "001") for key in KEYS)
    assert db.main.one(SET, 3, "extra1") == 1
