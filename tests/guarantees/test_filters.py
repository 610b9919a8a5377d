"""Filters: a consumer gets every event that passes, and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.guarantees.sessions import refused
from tests.guarantees.workers import SLOWEST, Worker

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

SET = "select pgq.set_consumer_filter('q', 'c', %s::jsonb)"
RECEIVE = "select array_agg(ev_data) from pgq.receive('q', 'c', %s, '1 minute')"
TICKS = "select prev_tick_id, cur_tick_id from pgq.next_batch_info('q', 'c')"
LAST = "select max(tick_id) from pgq.tick"
MOVES = "select count(*) from pgq.position join pgq.registration on sub_id = pos_sub"


def choose(session: Session, *types: str) -> int:
    """Let the consumer take these types only."""
    return int(session.one(SET, json.dumps({"types": types}) if types else None))


def fill(db: Database, events: str) -> None:
    """Insert events, "a1+b1 b2" in two ticks; the first letter is the type, all of it the data."""
    for tick in events.split():
        for data in tick.split("+"):
            db.main.one("select pgq.insert_event('q', %s, %s)", data[0], data)
        db.main.tick()


def filtered(db: Database, events: str = "", *types: str) -> None:
    """Make the queue, and its consumer with a filter."""
    db.queue()
    assert choose(db.main, *(types or ("a",))) == 1
    fill(db, events)


def test_consumer_gets_what_passes_and_nothing_else(db: Database) -> None:
    filtered(db, "a1 b1 b2 a2 a3 b3")
    assert list(db.main.batches()) == [["a1"], ["a2"], ["a3"]]
    fill(db, "b4 a4")
    assert db.main.drain() == ["a4"]


def test_ticks_without_an_event_are_skipped_and_not_one_more(db: Database) -> None:
    filtered(db, "b1 b2 b3 a1 a2 b4")
    assert db.main.all(TICKS) == [(4, 5)]
    batch = db.main.next()
    assert db.main.data(batch) == ["a1"]
    assert db.main.finish(batch) == 1
    assert db.main.all(TICKS) == [(5, 6)]


def test_position_moves_over_what_is_not_for_the_consumer(db: Database) -> None:
    filtered(db, "b1 b2 b3")
    before = db.main.one(MOVES)
    assert db.main.next() is None
    assert db.main.one(SLOWEST) == db.main.one(LAST)
    assert db.main.next() is None
    assert db.main.one(MOVES) == before + 1


def test_rotation_goes_on_where_nothing_is_for_the_consumer(db: Database) -> None:
    filtered(db)
    tables = set()
    for number in range(4):
        fill(db, f"b{number}")
        assert db.main.next() is None
        tables.add(db.main.rotate())
    assert tables == {0, 1, 2}


def test_after_a_hundred_ranges_a_batch_ends_the_call(db: Database) -> None:
    filtered(db, " ".join(f"b{number}" for number in range(150)))
    assert db.main.all(TICKS) == [(100, 101)]
    assert db.main.drain() == []
    assert db.main.one(SLOWEST) == db.main.one(LAST)


def test_after_half_a_million_events_a_batch_ends_the_call(db: Database) -> None:
    filtered(db)
    for _ in range(3):  # as if so many had been inserted
        db.main.one("select setval('pgq.event_1_id_seq', nextval('pgq.event_1_id_seq') + 300000)")
        fill(db, "b")
    assert db.main.all(TICKS) == [(2, 3)]
    assert db.main.drain() == []
    assert db.main.one(SLOWEST) == db.main.one(LAST)


def test_without_a_filter_no_tick_is_skipped(db: Database) -> None:
    filtered(db, "b1 a1")
    assert choose(db.main) == 1
    assert list(db.main.batches()) == [["b1"], ["a1"]]


def test_limits_hold_for_the_events_of_the_queue(db: Database) -> None:
    filtered(db, "b1 b2 b3 b4 a1 b5 b6")
    limited = "select prev_tick_id, cur_tick_id from pgq.next_batch_custom('q', 'c', %s, %s, null)"
    assert db.main.all(limited, "1 hour", None) == [(None, None)]
    assert db.main.all(limited, None, 8) == [(None, None)]
    assert db.main.all(limited, None, 3) == [(4, 8)]


def test_retried_event_comes_again_whatever_the_filter_is(db: Database) -> None:
    filtered(db, "a1")
    batch = db.main.next()
    (event,) = db.main.events(batch)
    db.main.one("select pgq.event_retry(%s, %s::bigint, 0)", batch, event.id)
    assert db.main.finish(batch) == 1
    assert choose(db.main, "b") == 1
    assert db.main.one("select pgq.maint_retry_events()") == 1
    assert db.main.deliver() == ["a1"]


def test_dead_event_that_is_revived_comes_again_whatever_the_filter_is(db: Database) -> None:
    filtered(db, "a1")
    batch = db.main.next()
    (event,) = db.main.events(batch)
    died = "select pgq.event_dead(%s, array[%s::bigint], array[%s::bigint], array['x'])"
    assert db.main.one(died, batch, event.id, event.txid) == 1
    assert db.main.finish(batch) == 1
    assert choose(db.main, "b") == 1
    assert db.main.one("select pgq.revive_dead_events('q', 'c')") == event.id
    assert db.main.one("select pgq.maint_retry_events()") == 1
    assert db.main.deliver() == ["a1"]


def test_other_consumers_retried_events_do_not_count(db: Database) -> None:
    filtered(db)
    db.main.one("select pgq.register_consumer('q', 'd')")
    fill(db, "b1")
    batch = db.main.next("d")
    db.main.one("select pgq.batch_retry(%s, 0)", batch)
    assert db.main.finish(batch) == 1
    assert db.main.one("select pgq.maint_retry_events()") == 1
    db.main.tick()
    assert db.main.next() is None


def test_event_that_does_not_pass_is_not_in_the_batch(db: Database) -> None:
    filtered(db, "b1+a1")
    batch = db.main.next()
    with refused("PQ004"):
        db.main.one("select pgq.event_retry(%s, 1::bigint, 0)", batch)
    assert db.main.one("select pgq.batch_retry(%s, 0)", batch) == 1


@pytest.mark.parametrize("rolled_back", [False, True])
def test_event_of_a_late_transaction_is_not_skipped(db: Database, *, rolled_back: bool) -> None:
    filtered(db)
    late = db.open()
    late.begin()
    late.one("select pgq.insert_event('q', 'a', 'late')")
    fill(db, "b1 b2")
    assert db.main.next() is None
    late.run("rollback" if rolled_back else "commit")
    fill(db, "b3")
    assert db.main.drain() == ([] if rolled_back else ["late"])


def test_ticks_are_there_while_they_are_skipped(db: Database) -> None:
    filtered(db, "b1 b2 a1 b3")
    one = db.open()
    one.begin()
    batch = one.next()
    assert db.main.one("select pgq.compact_ticks()") is False
    one.commit()
    assert db.main.one("select pgq.compact_ticks()")
    assert db.main.data(batch) == ["a1"]
    assert db.main.finish(batch) == 1
    assert db.main.drain() == []


def test_workers_get_what_passes(db: Database) -> None:
    filtered(db, "b1 a1+b2 b3 b4+a2 b5")
    one, other = (Worker(db.open(), name, f"host:{name}:x") for name in "12")
    first, second = one.lock().take(), other.lock().take()
    assert [one.data(first), other.data(second)] == [["a1"], ["a2"]]
    assert [one.finish(first), other.finish(second), one.take()] == [1, 1, None]
    assert db.main.one(SLOWEST) == db.main.one(LAST)
    db.main.tick()
    fill(db, "b5")
    assert one.take() is None
    assert db.main.one(SLOWEST) == db.main.one(LAST)


def test_range_is_cut_into_parts_of_what_passes(db: Database) -> None:
    filtered(db)
    fill(db, "+".join([f"b{number}" for number in range(40)] + [f"a{n}" for n in range(40)]))
    one = Worker(db.open(), "1", "host:1:x").lock()
    take = "select batch_id from pgq.take_part('q', 'c', '1', 'host:1:x', i_wanted => 10)"
    found = []
    while (batch := one.session.one(take)) is not None:
        found.append(one.data(batch))
        assert one.finish(batch) == 1
    assert [data for part in found for data in part] == [f"a{number}" for number in range(40)]
    assert max(map(len, found)) <= 20
    assert min(map(len, found)) > 0


def test_receivers_get_what_passes(db: Database) -> None:
    filtered(db, "b1 b2 a1 b3 a2 a3 b4")
    assert db.main.one(RECEIVE, 10) == ["a1", "a2", "a3"]
    assert db.main.one(RECEIVE, 10) is None
    fill(db, " ".join(f"b{number}" for number in range(5)))
    assert db.main.one(RECEIVE, 10) is None
    assert db.main.one("select max(pos_last_tick) from pgq.current_position") == db.main.one(LAST)
