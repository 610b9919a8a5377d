"""Large ranges: cut once, each part goes to one worker, what holds for ranges holds for parts."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.guarantees.sessions import refused
from tests.guarantees.stages import commit_stage, stage
from tests.guarantees.workers import Worker, workers

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

PART = "select batch_id from pgq.take_part('q', 'c', %s, %s, i_wanted => %s)"
CUTS = "select pos_cuts from pgq.current_position where pos_cuts is not null"
CALLS = """
    select funcname, calls from pg_stat_xact_user_functions
     where funcname = 'range_sql'
"""
TICKS_READ = """
    select sum(seq_tup_read + idx_tup_fetch) from pg_stat_xact_user_tables
     where relname in ('tick', 'tick_recent')
"""
FILL = """
    select pgq.insert_events('q', array_fill('t'::text, array[40000]),
        array_fill('d'::text, array[40000]))
"""
DATA = [f"{number:02}" for number in range(40)]


def take(worker: Worker, wanted: int | None = 4) -> int | None:
    """Take a part of about so many events."""
    batch: int | None = worker.session.one(PART, worker.name, worker.holder, wanted)
    return batch


def large(db: Database, count: int = 2) -> list[Worker]:
    """Make workers, and one range with 40 events."""
    made = [worker.lock() for worker in workers(db, "", count)]
    db.main.begin()
    for data in DATA:
        db.main.insert(data)
    db.main.commit()
    db.main.tick()
    return made


def rest(worker: Worker, wanted: int | None = 4) -> list[str]:
    """Take and finish all parts that are left."""
    found = []
    while (batch := take(worker, wanted)) is not None:
        found += worker.data(batch)
        assert worker.finish(batch) == 1
    return found


def test_a_large_range_is_shared_by_its_workers(db: Database) -> None:
    one, other, third = large(db, 3)
    batches = [take(worker) for worker in (one, other, third)]
    parts = [one.data(batch) for batch in batches]
    assert [len(part) for part in parts] == [8, 8, 4], "ten parts, a sixth of what is left each"
    assert parts[0] + parts[1] + parts[2] + rest_of(one, batches[0]) == DATA
    assert [other.finish(batches[1]), third.finish(batches[2])] == [1, 1]
    db.main.insert("next")
    assert db.main.tick()
    assert rest(other) == ["next"]


def rest_of(worker: Worker, batch: int | None) -> list[str]:
    """Finish a batch, then take and finish all parts that are left."""
    assert worker.finish(batch) == 1
    return rest(worker)


def test_more_workers_than_parts_get_a_part_each_as_long_as_there_are_parts(db: Database) -> None:
    made = large(db, 5)
    batches = [take(worker, 14) for worker in made]
    assert batches[3:] == [None, None]
    assert [each for batch in batches[:3] for each in made[0].data(batch)] == DATA


def test_a_small_range_is_not_cut_and_no_part_is_empty(db: Database) -> None:
    (one,) = large(db, 1)
    with refused("PQ009"):
        take(one, 0)
    for wanted in (None, 40, 1000, 2**31 - 1):
        one.session.begin()
        assert one.data(take(one, wanted)) == DATA
        one.session.rollback()


def test_fast_worker_gets_all_of_its_share_of_a_cut_range(db: Database) -> None:
    one, other = large(db)
    batch = take(one)
    assert len(one.data(batch)) == 12, "three of ten parts, a fourth"
    assert len(other.data(take(other, None))) == 16, "four of seven parts, half"
    assert len(rest_of(one, batch)) == 12, "the other three"


def test_parts_of_a_range_of_which_a_sample_was_cut_hold_each_event_once(db: Database) -> None:
    (one,) = workers(db, "", 1)
    db.main.run(FILL)
    db.main.tick()
    sizes: list[int] = []
    ids: list[int] = []
    while (batch := take(one, 5000)) is not None:
        ids += [event.id for event in one.session.events(batch)]
        sizes.append(len(ids) - sum(sizes))
        assert one.finish(batch) == 1
    assert len(sizes) > 3
    assert max(sizes) < 25_000, "half of the events at first"
    assert len(ids) == len(set(ids)) == 40_000


def take_once(worker: Worker, wanted: int | None, query: str) -> list[tuple[Any, ...]]:
    """Take a range in a transaction that is rolled back; return what a query finds in it."""
    worker.session.run("set track_functions = 'all'")
    worker.session.begin()
    assert take(worker, wanted) is not None
    found = worker.session.all(query)
    worker.session.rollback()
    return found


def test_events_are_counted_only_for_a_range_that_may_be_cut(db: Database) -> None:
    one, other = large(db)
    assert take_once(one, None, CALLS) == []
    assert take_once(other, 40, CALLS) == [("range_sql", 1)]


def test_a_look_at_the_size_of_a_range_reads_two_ticks(db: Database) -> None:
    one, other = workers(db, "", 2)
    for _ in range(100):
        db.main.tick()
    (whole,), (looked,) = (*take_once(one, None, TICKS_READ), *take_once(other, 40, TICKS_READ))
    assert looked == whole + 2


def test_a_large_transaction_that_took_its_ids_before_the_range_is_cut(db: Database) -> None:
    (one,) = workers(db, "", 1)
    writer = db.open()
    writer.begin()
    for data in DATA:
        writer.insert(data)
    db.main.tick()
    assert rest(one, None) == []
    writer.commit()
    db.main.tick()
    assert len(one.data(take(one))) == 20, "ten parts, half of them"


def test_a_large_stage_is_cut(db: Database) -> None:
    (one,) = workers(db, "", 1)
    written = stage(db.main, *DATA)
    db.main.tick()
    assert rest(one, None) == []
    commit_stage(db.main, written)
    db.main.tick()
    assert len(one.data(take(one))) == 20, "ten parts, half of them"


def test_parts_that_are_left_hold_their_events(db: Database) -> None:
    one, other = large(db)
    first = take(one)
    second = take(other)
    begun = one.data(first) + other.data(second)
    assert [one.finish(first), other.finish(second)] == [1, 1]
    db.main.tick_after("next")
    for _ in range(4):
        db.main.rotate()
    db.main.one("select pgq.maint_ticks('q')")
    left = db.main.one(CUTS)
    assert db.main.one("select pgq.compact_ticks()")
    assert db.main.one("select pgq.compact_positions()")
    db.main.one("select pgq.repair_queue('q')")
    assert db.main.one(CUTS) == left
    assert begun + rest(one, None) == [*DATA, "next"]


def test_part_of_a_dead_worker_stays_a_part(db: Database) -> None:
    one, other = large(db)
    batch = take(one)
    part = one.data(batch)
    first = one.session.events(batch)[0]
    assert one.session.one("select pgq.finish_part(%s, %s)", batch, first.id) == 1
    assert one.data(batch) == part[1:]
    one.session.one("select pg_advisory_unlock_all()")
    taken = take(other)
    assert other.data(taken) == part[1:]
    assert one.finish(batch) == 0
    assert other.finish(taken) == 1
    assert part + rest(other) == DATA


@pytest.mark.parametrize("function", ["begin_run", "widen_run", "end_run"])
def test_part_stays_a_part_whatever_its_run_tells(db: Database, function: str) -> None:
    (one,) = large(db, 1)
    batch = take(one)
    part = one.data(batch)
    for number in range(2):
        one.session.one(f"select pgq.begin_run('q', 'c.1', 'run {number}')")
    one.session.one("select pgq.begin_run('q', 'c.1', 'next')")
    one.session.one(f"select pgq.{function}('q', 'c.1', 'next')")
    assert one.data(batch) == part


def test_event_beyond_its_part_is_not_finished(db: Database) -> None:
    (one,) = large(db, 1)
    batch = take(one)
    last = one.session.events(batch)[-1]
    for call in ("finish_part(%s, %s)", "finish_part(%s, null, array[%s])"):
        with refused("PQ009"):
            one.session.one(f"select pgq.{call}", batch, last.id + 1)
    with refused("PQ004"):
        one.session.one("select pgq.event_retry(%s, %s, 0)", batch, last.id + 1)
    assert one.session.one("select pgq.finish_part(%s, %s)", batch, last.id) == 1


def test_a_consumer_with_parts_left_keeps_its_mode_and_may_be_moved(db: Database) -> None:
    (one,) = large(db, 1)
    batch = take(one)
    assert one.finish(batch) == 1
    one.session.one("select pg_advisory_unlock_all()")
    with pytest.raises(psycopg.Error, match="parts of a range are left"):
        db.main.one("select pgq.set_consumer_mode('q', 'c', 'plain')")
    first = db.main.one("select min(tick_id) from pgq.get_tick_info('q')")
    db.main.one("select pgq.register_consumer_at('q', 'c', %s)", first)
    assert rest(one) == DATA
    assert db.main.one("select pgq.set_consumer_mode('q', 'c', 'plain')") == 1


def test_an_event_and_its_retried_copy_are_in_one_part(db: Database) -> None:
    (one,) = large(db, 1)
    batch = take(one, None)
    for event in one.session.events(batch)[:30]:
        one.session.one("select pgq.event_retry(%s, %s, 0)", batch, event.id)
    assert db.main.one("select pgq.maint_retry_events()") == 30
    first = db.main.one("select min(tick_id) from pgq.get_tick_info('q')")
    db.main.one("select pgq.register_consumer_at('q', 'c', %s)", first)
    db.main.tick()
    whole = "select batch_id from pgq.take_part('q', 'c', '1', i_min_count => 41, i_wanted => 4)"
    parts = []
    while (batch := one.session.one(whole)) is not None:
        parts.append(one.data(batch))
        assert one.finish(batch) == 1
    assert sorted(chain(*parts)) == sorted(DATA + DATA[:30])
    assert all(not set(part) & set(later) for part, later in pairwise(parts))
