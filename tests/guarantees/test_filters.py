"""Filters: a consumer gets every event that passes, and nothing else; a new filter."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.guarantees.sessions import refused
from tests.guarantees.test_shared_ends import HOUR, UNMOVED
from tests.guarantees.workers import SLOWEST, Worker
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tests.guarantees.sessions import Database, Session


SET = "select pgq.set_consumer_filter('q', 'c', %s::jsonb)"
RECEIVE = "select array_agg(ev_data) from pgq.receive('q', 'c', %s)"
TICKS = "select prev_tick_id, cur_tick_id from pgq.next_batch_info('q', 'c')"
LAST = "select max(tick_id) from pgq.get_tick_info('q')"
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
    db.main.one("select pgq.register_shared_consumer('q', 'c')")
    assert db.main.one(RECEIVE, 10) == ["a1", "a2", "a3"]
    assert db.main.one(RECEIVE, 10) is None
    fill(db, " ".join(f"b{number}" for number in range(5)))
    assert db.main.one(RECEIVE, 10) is None


ASKING = "select batch_id from pgq.take_part('q', 'c', null, 'run', '1 minute', i_filter => %s)"


def ask(session: Session, *types: str) -> Future[object]:
    """Take a range as a worker with a lease, which handles these types only."""
    return session.later(ASKING, json.dumps({"types": types}))


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


def test_running_worker_keeps_its_filter(db: Database) -> None:
    filtered(db, "a1")
    worker = Worker(db.open(), "1", "host:1:x").lock()
    with refused("PQ021"):
        choose(db.main, "b")
    assert choose(worker.session, "b") == 1, "its own session"


def test_lease_keeps_its_filter(db: Database) -> None:
    filtered(db, "a1")
    take = "select batch_id from pgq.take_part('q', 'c', null, 'run', '1 minute')"
    assert db.main.data(db.main.one(take)) == ["a1"]
    with refused("PQ021"):
        choose(db.main, "b")
    db.main.run("update pgq.position set pos_until = now() where pos_until > now()")
    assert choose(db.main, "b") == 1


def test_range_of_a_dead_worker_is_read_with_the_new_filter(db: Database) -> None:
    filtered(db, "b1+a1")
    one = Worker(db.open(), "1", "host:1:x")
    batch = one.take()
    assert one.data(batch) == ["a1"]
    assert choose(db.main, "b") == 1
    assert one.finish(batch) == 0
    assert Worker(db.open(), "2", "host:2:x").lock().drain() == ["b1"]


def test_of_two_workers_with_different_filters_the_second_is_refused(db: Database) -> None:
    filtered(db)
    one, other = (Worker(db.open(), name, f"host:{name}:x") for name in "12")
    one.lock().session.begin()
    assert choose(one.session, "b") == 1
    old = other.lock().session.later(SET, '{"types": ["a"]}')
    wait_until_blocked(db.main.connection, other.session.pid)
    one.session.commit()
    with refused("PQ021"):
        old.result(timeout=30)
    assert choose(other.session, "b") == 0


def test_worker_that_asks_for_other_events_takes_and_passes_over_nothing(db: Database) -> None:
    filtered(db, "a1 b1")
    before = db.main.one(MOVES)
    with pytest.raises(psycopg.Error) as failed:
        ask(db.open(), "b").result(timeout=30)
    assert failed.value.sqlstate == "PQ021"
    both = 'it takes {"types": ["a"]}, the worker asks for {"types": ["b"]}'
    assert failed.value.diag.message_detail == both
    assert db.main.one(MOVES) == before
    assert choose(db.main) == 1
    with refused("PQ021"):
        ask(db.open(), "b").result(timeout=30)
    assert Worker(db.open(), "1", "host:1:x").drain() == ["a1", "b1"]


@pytest.mark.parametrize(("has", "asks"), [(["a", "c"], ["c", "a", "c"]), ([], ["*", "a"])])
def test_worker_may_write_its_filter_in_another_way(
    db: Database, has: list[str], asks: list[str]
) -> None:
    db.queue()
    choose(db.main, *has)
    fill(db, "a1")
    batch = db.main.one(ASKING, json.dumps({"types": asks}))
    assert db.main.data(batch) == ["a1"]


def test_worker_does_not_go_on_with_a_batch_under_another_filter(db: Database) -> None:
    filtered(db, "a1+b1")
    one = db.open()
    ask(one, "a").result(timeout=30)
    db.main.run("update pgq.position set pos_until = now() where pos_until > now()")
    assert choose(db.main, "b") == 1
    with refused("PQ021"):
        ask(one, "a").result(timeout=30)
    assert Worker(db.open(), "1", "host:1:x").drain() == ["b1"]


def test_filter_that_changes_while_a_worker_takes_is_seen(db: Database) -> None:
    filtered(db, "a1 b1")
    one, admin = db.open(), db.open()
    admin.begin()
    assert choose(admin, "b") == 1
    taking = ask(one, "a")
    wait_until_blocked(db.main.connection, one.pid)
    admin.commit()
    with refused("PQ021"):
        taking.result(timeout=30)
    assert Worker(db.open(), "1", "host:1:x").drain() == ["b1"]
