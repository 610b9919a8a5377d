"""Takeover of a lane: only from the dead, under a new batch id, and counted as with workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.lanes import CAREFUL, Run, held_look, in_order, insert, runs
from tests.guarantees.workers import AWAY, ENDED

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database


def one_lane(db: Database, count: int = 2, *numbers: int) -> list[Run]:
    """Make runs of a consumer with one lane, and a tick with events for each number."""
    made = runs(db, count, lanes=1)
    for number in numbers or (1,):
        insert(db.main, number)
        db.main.tick()
    return made


def test_batch_of_a_dead_run_goes_on_with_what_is_open_of_it(db: Database) -> None:
    one, other = one_lane(db)
    batch = one.take()
    ids = [event.id for event in one.session.events(batch)]
    found = one.events(batch)
    assert db.main.one("select pgq.finish_part(%s, %s, array[%s])", batch, ids[0], ids[2]) == 1
    one.die()
    taken = other.take()
    assert taken not in (None, batch)
    assert other.events(taken) == [found[1], *found[3:]]
    assert other.finish(taken) == 1
    assert [one.take(), other.take()] == [None, None]


@pytest.mark.parametrize(
    ("lock", "lease", "gone", "dead", "taken"),
    [
        (False, None, None, None, True),
        (True, None, None, "1 minute", False),
        (True, None, AWAY, None, False),
        (True, None, AWAY, "1 minute", True),
        (False, "1 minute", AWAY, "1 minute", False),
        (True, "1 minute", ENDED, None, True),
    ],
)
def test_run_is_dead_without_lock_lease_or_sign_of_life(
    db: Database, *, lock: bool, lease: str | None, gone: str | None, dead: str | None, taken: bool
) -> None:
    one, other = one_lane(db)
    batch = one.take(lease)
    if not lock:
        one.die()
    if gone is not None:
        db.main.connection.execute(gone.encode(), [batch])
    assert (other.take(dead=dead) is not None) == taken
    assert one.finish(batch) == (0 if taken else 1)


@pytest.mark.parametrize(("gone", "lease"), [(AWAY, None), (ENDED, "1 minute")])
def test_run_that_asks_again_has_its_batch_longer(
    db: Database, gone: str, lease: str | None
) -> None:
    one, other = one_lane(db)
    batch = one.take(lease)
    db.main.connection.execute(gone.encode(), [batch])
    assert one.take(lease) == batch
    assert other.take(dead="1 minute") is None
    assert one.finish(batch) == 1


def test_each_death_narrows_the_parts_and_then_counts(db: Database) -> None:
    db.queue()
    one_lane_of = [Run(db.open(), f"host:{number}:x") for number in range(7)]
    db.main.one("select pgq.set_lanes('q', 'c', 1, 'extra1')")
    insert(db.main, 1)
    db.main.tick()
    seen = []
    for run in one_lane_of:
        seen.append(run.session.all(CAREFUL, run.holder)[0][:2])
        run.die()
    assert seen == [(None, None), (1000, None), (30, None), (1, None), (1, 1), (1, 2), (1, 3)]
    last = Run(db.open(), "host:last:x")
    part, tries, died = last.session.all(CAREFUL, last.holder)[0]
    assert (part, tries, died) == (1, 4, [f"host:{number}:x" for number in range(3, 7)])
    batch = last.take()
    first = last.session.events(batch)[0].id
    assert last.session.one("select pgq.finish_part(%s, %s)", batch, first) == 1
    assert last.session.all(CAREFUL, last.holder)[0][:2] == (1, None)


def test_run_that_lost_its_session_goes_on_with_its_batch(db: Database) -> None:
    one, other = one_lane(db)
    batch = one.take()
    one.die()
    again = Run(db.open(), one.holder)
    assert again.take() == batch
    assert other.take() is None
    assert again.finish(batch) == 1


def test_run_that_comes_back_is_not_counted_as_dead(db: Database) -> None:
    one, other = one_lane(db)
    one.take()
    db.main.run("update pgq.position set pos_part = 1 where pos_batch is not null")
    one.die()
    assert other.session.all(CAREFUL, other.holder) == [(1, 1, [one.holder])]
    again = Run(db.open(), one.holder)
    assert again.take() is None
    again.die()
    assert other.session.all(CAREFUL, other.holder) == [(1, None, [])]


def test_orderly_end_of_a_run_is_not_counted(db: Database) -> None:
    one, other = one_lane(db)
    _, lane = one.take_with_lane()
    assert one.session.one("select pgq.end_run('q', 'c.' || %s, %s)", lane, one.holder) == 1
    assert other.session.all(CAREFUL, other.holder) == [(None, None, None)]


def test_locked_lane_is_skipped_and_not_waited_for(db: Database) -> None:
    one, other = runs(db)
    expected = insert(db.main, 1)
    db.main.tick()
    batch = one.take()
    found = one.events(batch)
    one.die()
    one.session.begin()
    assert one.finish(batch) == 1
    other.session.run("set lock_timeout = '1s'")
    others = other.drain()
    assert sorted(found + others) == sorted(expected)
    one.session.rollback()
    assert other.drain() == found


def test_of_two_runs_that_take_a_lane_over_one_has_it(db: Database) -> None:
    one, other, third = one_lane(db, 3)
    one.take()
    one.die()
    with held_look(db, other, "run_is_dead") as gate:
        late = other.take_later()
        gate.wait_for_arrival()
        taken = third.take()
        third.die()
        gate.open()
        assert late.result(timeout=30) is None
    assert third.finish(taken) == 1


def test_of_two_runs_that_open_a_batch_one_has_it(db: Database) -> None:
    one, other = one_lane(db, 2, 1, 2)
    found = []
    with held_look(db, one) as gate:
        late = one.take_later()
        gate.wait_for_arrival()
        batch = other.take()
        found += other.events(batch)
        assert other.finish(batch) == 1
        gate.open()
        assert late.result(timeout=30) is None
    found += one.drain()
    assert len(found) == 40
    assert in_order(found)


def test_run_that_died_before_the_lock_was_seen_is_looked_at_again(db: Database) -> None:
    one, other = one_lane(db)
    batch = one.take()
    one.die()
    with held_look(db, other, "run_is_dead") as gate:
        late = other.take_later()
        gate.wait_for_arrival()
        again = Run(db.open(), one.holder)
        assert again.take() == batch
        gate.open()
        assert late.result(timeout=30) is None
    assert again.finish(batch) == 1
