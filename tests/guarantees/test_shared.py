"""Shared consumers: workers take ranges, each event is in one of them, whatever else goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.sessions import refused
from tests.guarantees.workers import SLOWEST, Worker, workers
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database


def test_each_event_is_in_the_range_of_one_worker(db: Database) -> None:
    one, other, third = workers(db, "abcdefg", 3)
    batches = [worker.take() for worker in (one.lock(), other.lock(), third.lock())]
    assert [one.data(batch) for batch in batches] == [["a"], ["b"], ["c"]]
    assert [each.take() for each in (one, other)] == batches[:2]
    assert other.finish(batches[1]) == 1
    assert other.drain() == ["d", "e", "f", "g"]
    assert [one.finish(batches[0]), third.finish(batches[2])] == [1, 1]
    assert [each.take() for each in (one, other, third)] == [None] * 3


def test_two_workers_that_ask_at_once_get_different_ranges(db: Database) -> None:
    one, other = workers(db, "abc")
    assert one.finish(one.lock().take()) == 1
    one.session.begin()
    first = one.take()
    second = other.take_later()
    wait_until_blocked(db.main.connection, other.session.pid)
    one.session.commit()
    assert one.data(first) == ["b"]
    assert other.data(second.result(timeout=30)) == ["c"]


def test_range_of_a_worker_holds_its_events_against_rotation(db: Database) -> None:
    one, other = workers(db, "abc")
    batch = one.lock().take()
    assert other.drain() == ["b", "c"]
    for _ in range(4):
        db.main.rotate()
    db.main.one("select pgq.maint_ticks('q')")
    assert one.data(batch) == ["a"]


def test_range_keeps_its_ticks_whoever_has_it(db: Database) -> None:
    one, other = workers(db, "abcd")
    batch = one.take()
    other.session.begin()
    taken = other.take()
    for _ in range(2):
        assert db.main.one(SLOWEST) == db.main.one(
            "select min(tick_id) from pgq.get_tick_info('q')"
        )
        other.session.run("commit")
    assert one.finish(batch) == 0
    assert db.main.one("select pgq.compact_ticks()")
    assert other.data(taken) == ["a"]
    assert other.finish(taken) == 1
    assert other.drain() == ["b", "c", "d"]


def test_stopped_worker_stops_no_other(db: Database) -> None:
    one, other = workers(db, "ab")
    one.session.begin()
    assert one.session.one("select pgq.end_run('q', 'c.1', 'nobody')") == 0
    again = Worker(db.open(), "1", "host:3:x")
    again.session.run("set lock_timeout = '1s'")
    assert again.take() is None
    assert other.drain() == ["a", "b"]


def test_finished_worker_holds_no_tick(db: Database) -> None:
    one, other = workers(db, "abc")
    assert one.finish(one.take()) == 1
    assert other.drain() == ["b", "c"]
    assert db.main.one(SLOWEST) == db.main.one("select max(tick_id) from pgq.get_tick_info('q')")


def test_retried_and_dead_events_belong_to_the_consumer(db: Database) -> None:
    one, other = workers(db, "")
    for data in "abc":
        db.main.insert(data)
    db.main.tick()
    batch = one.take()
    a, b, _ = one.session.events(batch)
    assert one.session.one("select pgq.event_retry(%s, %s, 0)", batch, a.id) == 1
    dead = "select pgq.event_dead(%s, array[%s], array[%s], '{why}')"
    assert one.session.one(dead, batch, b.id, b.txid) == 1
    assert one.finish(batch) == 1
    assert db.main.one("select pgq.unregister_subconsumer('q', 'c', '1', 0)") == 1
    db.main.one(
        "select pgq.event_retry_raw('q', 'c.2', now(), null, null, 1, 't', 'd', '', '', '', '')"
    )
    assert db.main.one("select pgq.maint_retry_events()") == 2
    db.main.tick()
    assert other.drain() == ["a", "d"]
    assert db.main.one("select count(*) from pgq.revive_dead_events('q', 'c')") == 1
    assert db.main.one("select pgq.maint_retry_events()") == 1
    db.main.tick()
    assert other.drain() == ["b"]
    assert db.main.one("select count(*) from pgq.retry_queue") == 0


def test_consumer_that_is_moved_takes_the_ranges_of_its_workers_away(db: Database) -> None:
    one, other = workers(db, "ab")
    batches = [one.lock().take(), other.lock().take()]
    first = db.main.one("select min(tick_id) from pgq.get_tick_info('q')")
    assert db.main.one("select pgq.register_consumer_at('q', 'c', %s)", first) == 0
    assert [one.finish(batch) for batch in batches] == [0, 0]
    assert one.drain() == ["a", "b"]


def test_ranges_outlive_compaction_and_repair(db: Database) -> None:
    one, other = workers(db, "abc")
    batches = [one.lock().take(), other.lock().take()]
    db.main.one("select pgq.maint_positions()")
    assert db.main.one("select pgq.compact_positions()")
    assert db.main.one("select pgq.compact_ticks()")
    assert db.main.one("select pgq.repair_queue('q')") == 3
    assert [one.finish(batch) for batch in batches] == [0, 0]
    batches = [one.take(), other.take()]
    assert [one.data(batch) for batch in batches] == [["a"], ["b"]]
    assert [one.finish(batch) for batch in batches] == [1, 1]
    assert one.drain() == ["c"]


@pytest.mark.alone
def test_consumer_leaves_with_its_workers(db: Database) -> None:
    one, other = workers(db, "ab")
    batch = one.lock().take()
    one.session.begin()
    assert one.finish(batch) == 1
    leaving = other.session.later("select pgq.unregister_consumer('q', 'c')")
    wait_until_blocked(db.main.connection, other.session.pid)
    one.session.commit()
    assert leaving.result(timeout=30) == 3
    left = "select (select count(*) from pgq.position) + (select count(*) from pgq.consumer)"
    assert db.main.one(left) == 0
    with refused("PQ002"):
        one.take()
