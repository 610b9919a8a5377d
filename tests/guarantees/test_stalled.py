"""Stalled consumers: detached only where that frees a table, and attached again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.coop import subconsumers
from tests.guarantees.seek import MOVE_RETRIES, SEEK, ticked
from tests.guarantees.sessions import refused
from tests.guarantees.stalling import MAINT, POLICY, REATTACH, TABLE, TICKED, detach, stall
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database


INFO = "select consumer_name from pgq.get_stalled_info('q')"


def test_stalled_consumer_is_detached_and_goes_on_if_nothing_is_gone(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    db.main.one(POLICY.replace("'q', 'c'", "'next', 'd'"), "1 min", None)
    stall(db)
    batch = db.main.next()
    assert db.main.data(batch) == ["a"]
    assert detach(db) == 1
    assert db.main.one("select count(*) from pgq.registration where sub_detached is not null") == 1
    for call in ("next_batch('q', 'c')", "open_batch('q', 'c')"):
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


def test_what_is_gone_is_told_and_the_consumer_goes_on_from_the_earliest_tick(db: Database) -> None:
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


def test_repair_does_not_make_a_detached_consumer_live(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    assert detach(db) == 1
    assert db.main.rotate() == 0
    low = db.main.one("select queue_low_tick from pgq.queue where queue_id = 1")
    db.main.one("select pgq.repair_queue('q')")
    assert db.main.one("select queue_low_tick from pgq.queue where queue_id = 1") >= low
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


def detached_with_a_retry(db: Database, seconds: int) -> None:
    """Detach a consumer that has set an event aside."""
    db.queue(consumers=("c", "other"))
    ticked(db.main, "r")
    batch = db.main.next()
    event = db.main.events(batch)[0].id
    db.main.one("select pgq.event_retry(%s, %s, %s)", batch, event, seconds)
    db.main.finish(batch)
    db.main.drain("other")
    stall(db)
    assert detach(db) == 1


def test_retried_events_wait_for_the_consumer(db: Database) -> None:
    detached_with_a_retry(db, 0)
    raw = "select pgq.event_retry_raw('q', 'c', now(), null, now(), 0, 't', 'raw', '', '', '', '')"
    db.main.one(raw)
    db.main.one(raw.replace("'c'", "'other'"))
    assert db.main.one(MOVE_RETRIES) == 1
    assert db.main.one("select next_retry from pgq.move_delayed_events('{}')") is None
    assert db.main.one(REATTACH, False) == 1
    assert db.main.one(MOVE_RETRIES) == 2
    assert sorted(db.main.deliver()) == ["a", "b", "r", "raw"]


def test_time_counts_from_the_tick_after_the_position(db: Database) -> None:
    db.queue()
    ticked(db.main, *"abc")
    db.main.run("update pgq.tick set tick_time = timestamp 'epoch' + tick_id * interval '10 s'")
    time = "ticked_time(q, 2) - q.queue_ticker_idle_period - q.queue_ticker_max_lag"
    seconds = f"select extract(epoch from pgq.{time})::int from pgq.queue q where queue_id = 1"
    assert db.main.one(seconds) == 10 + 60


def test_subconsumers_are_detached_with_their_consumer(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    one, two = subconsumers(db, "")
    stall(db)
    batch = one.take()
    assert one.data(batch) == ["a"]
    second = two.take()
    assert two.data(second) == ["b"]
    assert two.finish(second) == 1
    assert detach(db) == 3
    assert one.finish(batch) == 0
    for each in (one, two):
        with refused("PQ024"):
            each.take()
    assert db.main.one(REATTACH, False) == 1
    assert one.take() == batch
    assert one.drain() == ["a"], "the one that had finished b has nothing to do again"


def test_readers_of_ticks_are_refused(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    ticks = db.main.all("select min(tick_id), max(tick_id) from pgq.tick where tick_queue = 1")[0]
    db.main.one("select pgq.pin_range('q', 'c', %s, %s)", *ticks)
    assert detach(db) == 1
    for call in ("pin_range", "advance_subscription"):
        with refused("PQ024"):
            db.main.one(f"select pgq.{call}('q', 'c', %s, %s)", ticks[0], ticks[-1])
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


ENDS = pytest.mark.parametrize("end", ["commit", "rollback"])
# Else the run would check the queue, and hold the event tables.
HELD = """
    alter function pgq.ticked_time(pgq.queue, bigint) rename to ticked_time_itself;
    create function pgq.ticked_time(q pgq.queue, i_tick bigint) returns interval
    language plpgsql set lock_timeout = 0 as $$ begin
    {}
    return pgq.ticked_time_itself(q, i_tick); end $$"""


def test_mover_that_looked_before_a_reattach_finds_what_is_due(db: Database) -> None:
    detached_with_a_retry(db, 5000)
    mover, operator = db.open(), db.open()
    operator.begin()
    operator.one(REATTACH, False)
    assert mover.one(MOVE_RETRIES) == 0
    operator.commit()
    assert mover.one(MOVE_RETRIES) == 1


def test_consumer_that_is_at_work_is_not_detached(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    worker = db.open()
    worker.begin()
    batch = worker.next()
    assert worker.data(batch) == ["a"]
    assert detach(db) == 0
    assert worker.finish(batch) == 1
    worker.commit()
    assert db.main.rotate() == 0


def test_batch_is_not_finished_behind_a_detach(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    ticker, worker = db.open(), db.open()
    batch = worker.next()
    ticker.begin()
    ticker.one(MAINT)
    finishing = worker.later("select pgq.finish_batch(%s)", batch)
    wait_until_blocked(db.main.connection, worker.pid)
    ticker.commit()
    assert finishing.result(timeout=30) == 0
    assert db.main.rotate() == 0


def test_next_batch_that_waited_for_a_detach_is_refused(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    with refused("PQ024"):
        db.behind(MAINT, "select pgq.next_batch('q', 'c')")


def test_rotation_that_waits_for_a_reattach_counts_the_consumer(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    assert detach(db) == 1
    operator, ticker = db.open(), db.open()
    operator.begin()
    operator.one(REATTACH, False)
    ticker.one("select pgq.maint_rotate_tables_step1('q')")
    assert db.main.one("select queue_cur_table from pgq.queue where queue_id = 1") == 2
    operator.commit()
    assert db.main.rotate() == 2
    assert db.main.drain() == ["a", "b"]


def test_consumer_that_went_on_meanwhile_is_not_detached(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    ticker = db.open()
    with db.held(ticker, HELD) as gate:
        maint = ticker.later(MAINT)
        gate.wait_for_arrival()
        assert db.main.finish(db.main.next()) == 1
        gate.open()
        assert maint.result(timeout=30) == 0
    assert db.main.drain() == ["b"]


def test_subconsumer_that_is_at_work_keeps_its_consumer_attached(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    one, two = subconsumers(db, "")
    stall(db)
    batch = one.take()
    assert two.finish(two.take()) == 1
    two.session.begin()
    one.session.begin()
    assert one.finish(batch) == 1
    assert detach(db) == 0
    one.session.commit()


def test_reattach_that_waited_for_a_rotation_tells_what_is_gone(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    assert detach(db) == 1
    with refused("PQ016"):
        db.behind("select pgq.maint_rotate_tables_step1('q')", REATTACH, False)


@ENDS
def test_seek_that_waited_for_a_detach_moves_the_consumer_and_leaves_it_detached(
    db: Database, end: str
) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    last = db.main.one("select max(tick_id) from pgq.get_tick_info('q')")
    assert db.behind(MAINT, SEEK, last, False, end=end) == last
    if end == "commit":
        with refused("PQ024"):
            db.main.next()
    assert db.main.one(REATTACH, False) == (end == "commit")
    assert db.main.drain() == []


@ENDS
def test_consumer_that_is_being_moved_is_not_detached(db: Database, end: str) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    last = db.main.one("select max(tick_id) from pgq.get_tick_info('q')")
    seeker = db.open()
    seeker.begin()
    assert seeker.one(SEEK, last, False) == last
    assert detach(db) == 0
    seeker.run(end)
    assert detach(db) == (end == "rollback")
    assert db.main.rotate() == 0, "nobody keeps the table of a"


@ENDS
def test_rotation_counts_a_consumer_until_its_detach_is_committed(db: Database, end: str) -> None:
    db.queue(consumers=("c", "other"))
    stall(db)
    ticker = db.open()
    ticker.begin()
    ticker.one(MAINT)
    assert db.main.rotate() == 2
    assert db.main.one(TABLE) == ["a", "b"]
    ticker.run(end)
    assert db.main.rotate() == (0 if end == "commit" else 2)
