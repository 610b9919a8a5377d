"""Stalled consumers: detached only where that frees a table, and attached again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.lanes import runs
from tests.guarantees.seek import MOVE_RETRIES, ticked
from tests.guarantees.sessions import refused
from tests.guarantees.stalling import POLICY, REATTACH, TABLE, TICKED, detach, stall
from tests.guarantees.workers import workers

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

INFO = "select consumer_name from pgq.get_stalled_info('q')"


def test_stalled_consumer_is_detached_and_goes_on_if_nothing_is_gone(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    batch = db.main.next()
    assert db.main.data(batch) == ["a"]
    assert detach(db) == 1
    for call in ("next_batch('q', 'c')", "begin_run('q', 'c', 'host:1:x')"):
        with refused("PQ024"):
            db.main.one(f"select pgq.{call}")
    assert db.main.finish(batch) == 0
    with refused("PQ003"):
        db.main.data(batch)
    assert db.main.one(REATTACH, False) == 1
    assert db.main.one(REATTACH, False) == 0
    assert db.main.next() == batch
    assert db.main.data(batch) == ["a"]
    assert db.main.finish(batch) == 1
    assert db.main.drain() == ["b"]
    assert db.main.rotate() == 0


def test_rotation_of_a_clock_that_was_ahead_makes_no_consumer_wait(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    db.main.run("update pgq.queue set queue_switch_time = now() + interval '1 day'")
    assert db.main.all(INFO) == [("c",)]
    assert detach(db) == 1


def test_what_is_gone_is_told_and_the_consumer_goes_on_from_the_earliest_tick(
    db: Database,
) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    batch = db.main.next()
    ticked(db.main, "c")
    db.main.drain("other")
    assert detach(db) == 1
    assert db.main.rotate() == 0
    assert db.main.one(TABLE) == ["b", "c"]
    with refused("PQ016"):
        db.main.one(REATTACH, False)
    assert db.main.one(REATTACH, True) == 1
    assert db.main.finish(batch) == 0
    assert db.main.drain() == ["c"]


def test_repair_does_not_make_a_detached_consumer_live(
    db: Database,
) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    assert detach(db) == 1
    assert db.main.rotate() == 0
    low = db.main.one("select queue_low_tick from pgq.queue")
    db.main.one("select pgq.repair_queue('q')")
    assert db.main.one("select queue_low_tick from pgq.queue") >= low
    while db.main.one("select pgq.maint_ticks('q')"):
        pass
    with refused("PQ016"):
        db.main.one(REATTACH, False)
    assert db.main.one("select is_live from pgq.get_stalled_info()") is False


def test_time_without_a_ticker_does_not_count(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    stall(db, size=0)
    db.main.run("update pgq.queue set queue_ticker_idle_period = '1 minute'")
    db.main.run("update pgq.queue set queue_rotation_period = '10 minutes'")
    assert detach(db) == 0
    db.main.run(TICKED)
    assert detach(db) == 1


@pytest.mark.parametrize("size", [0, 1 << 40])
def test_size_counts_too(db: Database, size: int) -> None:
    db.queue(consumers=("c", "other"))
    stall(db, None, size)
    assert detach(db) == (size == 0)


def test_consumer_stays_while_another_one_keeps_the_table_too(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    db.main.one("select pgq.register_consumer('q', 'slow')")
    stall(db)
    assert detach(db) == 0
    db.main.one("select pgq.set_stall_policy('q', 'slow', 'detach', '1 min')")
    assert detach(db) == 2
    assert db.main.rotate() == 0


def test_consumer_that_rotation_does_not_wait_for_stays(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    db.main.run("update pgq.queue set queue_retention = '90 minutes'")
    assert detach(db) == 0
    db.main.run("update pgq.queue set queue_retention = null")
    assert db.main.finish(db.main.next()) == 1
    assert detach(db) == 0


def test_retried_events_wait_for_the_consumer(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    ticked(db.main, "r")
    batch = db.main.next()
    event = db.main.events(batch)[0].id
    db.main.one("select pgq.event_retry(%s, %s, 0)", batch, event)
    db.main.finish(batch)
    db.main.drain("other")
    stall(db)
    assert detach(db) == 1
    raw = "select pgq.event_retry_raw('q', 'c', now(), null, now(), 0, 't', 'raw', '', '', '', '')"
    db.main.one(raw)
    assert db.main.one(MOVE_RETRIES) == 0
    assert db.main.one("select next_retry from pgq.move_delayed_events('{}')") is None
    assert db.main.one(REATTACH, False) == 1
    assert db.main.one(MOVE_RETRIES) == 2
    assert sorted(db.main.deliver()) == ["a", "b", "r", "raw"]


def test_workers_are_detached_with_their_consumer(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    one, two = (worker.lock() for worker in workers(db, ""))
    stall(db)
    batch = one.take()
    assert one.data(batch) == ["a"]
    second = two.take()
    assert two.data(second) == ["b"]
    assert two.finish(second) == 1
    assert detach(db) == 3
    assert one.finish(batch) == 0
    for worker in (one, two):
        with refused("PQ024"):
            worker.take()
    with refused("PQ024"):
        db.main.one("select pgq.receive('q', 'c', 1, '1 min')")
    assert db.main.one(REATTACH, False) == 1
    assert one.take() == batch
    assert one.drain() == ["a"], "the worker that had finished b has nothing to do again"


def test_lanes_are_detached_with_their_consumer(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    (run,) = runs(db, 1, lanes=2)
    assert detach(db) == 3
    with refused("PQ024"):
        run.take()
    with refused("PQ024"):
        db.main.one("select pgq.set_lanes('q', 'c', 4, 'extra1')")
    assert db.main.one(REATTACH, False) == 1
    assert run.take() is not None


def test_readers_of_ticks_are_refused(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    ticks = [tick for (tick,) in db.main.all("select tick_id from pgq.tick order by 1")]
    db.main.one("select pgq.pin_range('q', 'c', %s, %s)", ticks[0], ticks[-1])
    assert detach(db) == 1
    for call in ("pin_range", "advance_subscription"):
        with refused("PQ024"):
            db.main.one(f"select pgq.{call}('q', 'c', %s, %s)", ticks[0], ticks[-1])
    assert db.main.one("select pgq.end_run('q', 'c', 'host:1:x')") == 0
    db.main.rotate()
    with refused("PQ017"):
        db.main.one(REATTACH, True)
    assert detach(db) == 1


def test_bad_policies_are_refused(db: Database) -> None:
    db.queue()
    for policy, after, size in (
        ("detach", None, None),
        ("stop", "1 h", None),
        ("warn", "-1 h", None),
        ("warn", None, -1),
    ):
        with refused("PQ009"):
            db.main.one("select pgq.set_stall_policy('q', 'c', %s, %s, %s)", policy, after, size)
    assert db.main.one(POLICY, "1 h", None) == 1
    assert db.main.one(POLICY, "1 h", None) == 0
