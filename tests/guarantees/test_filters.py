"""Filters: a consumer gets every event that passes, and nothing else; a new filter."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.guarantees.coop import SLOWEST, Subconsumer
from tests.guarantees.sessions import refused
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session


SET = "select pgq.set_consumer_filter('q', 'c', %s::jsonb)"
RECEIVE = "select array_agg(ev_data) from pgq.receive('q', 'c', %s)"
TICKS = "select prev_tick_id, cur_tick_id from pgq.next_batch_info('q', 'c')"
LAST = "select max(tick_id) from pgq.get_tick_info('q')"
MOVES = "select count(*) from pgq.position join pgq.registration on sub_id = pos_sub"
HOUR = "update pgq.position set pos_moved = now() - interval '1 hour'"
UNMOVED = (  # for nearly an hour
    "select clock_timestamp() - pos_moved > '59 min' from pgq.current_position where pos_batch > 0"
)
LOCK = "select pg_advisory_lock(7366514, sub_id) from pgq.registration"


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


def test_consumer_gets_what_passes_and_skips_ticks_without_an_event(db: Database) -> None:
    filtered(db, "b1 b2 b3 a1 a2 b4")
    assert db.main.all(TICKS) == [(4, 5)]
    batch = db.main.next()
    assert db.main.data(batch) == ["a1"]
    assert db.main.finish(batch) == 1
    assert db.main.all(TICKS) == [(5, 6)], "and not one more"
    assert db.main.drain() == ["a2"]
    assert db.main.one(SLOWEST) == db.main.one(LAST)
    before = db.main.one(MOVES)
    fill(db, "b5 b6")
    assert [db.main.next(), db.main.next()] == [None, None]
    assert db.main.one(MOVES) == before + 1
    assert db.main.one(SLOWEST) == db.main.one(LAST)
    fill(db, "b7+a3")
    assert db.main.drain() == ["a3"]


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


def test_limits_hold_for_the_events_of_the_queue(db: Database) -> None:
    filtered(db, "b1 b2 b3 b4 a1 b5 b6")
    limited = "select prev_tick_id, cur_tick_id from pgq.next_batch_custom('q', 'c', %s, %s, null)"
    assert db.main.all(limited, "1 hour", None) == [(None, None)]
    assert db.main.all(limited, None, 8) == [(None, None)]
    assert db.main.all(limited, None, 3) == [(4, 8)]


def test_retried_and_revived_events_come_again_whatever_the_filter_is(db: Database) -> None:
    filtered(db, "a1+a2")
    batch = db.main.next()
    retried, event = db.main.events(batch)
    db.main.one("select pgq.event_retry(%s, %s::bigint, 0)", batch, retried.id)
    died = "select pgq.event_dead(%s, array[%s::bigint], array[%s::bigint], array['x'])"
    assert db.main.one(died, batch, event.id, event.txid) == 1
    assert db.main.finish(batch) == 1
    assert choose(db.main, "b") == 1
    assert db.main.one("select pgq.revive_dead_events('q', 'c')") == event.id
    assert db.main.one("select pgq.maint_retry_events()") == 2
    assert db.main.deliver() == ["a1", "a2"]


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


def test_subconsumers_get_what_passes(db: Database) -> None:
    filtered(db, "b1 a1+b2 b3 b4+a2 b5")
    one, other = (Subconsumer(db.open(), name) for name in "12")
    first, second = one.take(), other.take()
    assert [one.data(first), other.data(second)] == [["a1"], ["a2"]]
    assert [one.finish(first), other.finish(second), one.take()] == [1, 1, None]
    assert db.main.one(SLOWEST) == db.main.one(LAST)
    db.main.tick()
    fill(db, "b5")
    assert one.take() is None
    assert db.main.one(SLOWEST) == db.main.one(LAST)


def test_receivers_get_what_passes(db: Database) -> None:
    filtered(db, "b1 b2 a1 b3 a2 a3 b4")
    db.main.one("select pgq.set_consumer_mode('q', 'c', 'shared')")
    assert db.main.one(RECEIVE, 10) == ["a1", "a2", "a3"]
    assert db.main.one(RECEIVE, 10) is None
    fill(db, " ".join(f"b{number}" for number in range(5)))
    assert db.main.one(RECEIVE, 10) is None


def test_wider_filter_holds_for_an_open_batch_too(db: Database) -> None:
    filtered(db, "b1+a1")
    batch = db.main.next()
    assert db.main.data(batch) == ["a1"]
    assert choose(db.open(), "a", "b") == 1
    with refused("PQ003"):
        db.main.data(batch)
    assert db.main.finish(batch) == 0, "b1 was never read"
    again = db.main.next()
    assert again != batch
    assert db.main.data(again) == ["b1", "a1"]
    assert db.main.finish(again) == 1


def test_what_is_finished_of_an_open_batch_stays_finished(db: Database) -> None:
    filtered(db, "b1+a1+b2+a2")
    batch = db.main.next()
    ids = [event.id for event in db.main.events(batch)]
    assert db.main.one("select pgq.finish_part(%s, %s)", batch, ids[0]) == 1
    assert choose(db.main) == 1
    assert db.main.data(db.main.next()) == ["b2", "a2"]


@pytest.mark.alone
def test_new_filter_is_no_progress(db: Database) -> None:
    filtered(db, "a1")
    batch = db.main.next()
    db.main.run(HOUR)
    assert choose(db.main, "a", "b") == 1
    assert db.main.next() != batch
    assert db.main.all(UNMOVED) == [(True,)]


def test_batch_that_is_opened_waits_for_a_new_filter(db: Database) -> None:
    filtered(db, "b1 a1")
    opens = db.behind(lambda one: choose(one, "b"), "select pgq.next_batch('q', 'c')")
    assert db.main.data(opens) == ["b1"]


def test_running_consumer_keeps_its_filter(db: Database) -> None:
    filtered(db, "a1")
    running = db.open()
    running.one(LOCK)
    with refused("PQ021"):
        choose(db.main, "b")
    assert choose(running, "b") == 1, "its own session"


def test_batch_of_a_subconsumer_is_read_with_the_new_filter(db: Database) -> None:
    filtered(db, "b1+a1")
    one = Subconsumer(db.open(), "1")
    batch = one.take()
    assert one.data(batch) == ["a1"]
    assert choose(db.main, "b") == 1
    assert one.finish(batch) == 0
    assert one.drain() == ["b1"]


def test_of_two_programs_with_different_filters_the_second_is_refused(db: Database) -> None:
    filtered(db)
    one, other = db.open(), db.open()
    one.one(LOCK)
    one.begin()
    assert choose(one, "b") == 1
    old = other.later(SET, '{"types": ["a"]}')
    wait_until_blocked(db.main.connection, other.pid)
    one.commit()
    with refused("PQ021"):
        old.result(timeout=30)
    assert choose(other, "b") == 0
