"""G6: positions and ticks are compacted, and nobody who comes in between sees a table emptied."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.guarantees.sessions import RR, Session, refused
from tests.support.gates import BLOCKED_SQL, wait_until_blocked
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

pytestmark = pytest.mark.alone

COMPACTIONS = pytest.mark.parametrize("compact", ["compact_positions", "compact_ticks"])

# Calls beside the open batch 1, which goes from tick 1 to tick 2; the last tick is 5.
EVENT = "select ev_id, ev_txid from pgq.get_batch_events(1)"
FIND_TICK = "select next_tick_id from pgq.find_tick_helper(1, 2, now(), 0, null, null)"
ANSWERS = {
    "select ev_data from pgq.get_batch_events(1)": "a",
    "select ev_data from pgq.get_batch_cursor(1, 'events', 1)": "a",
    "select pgq.batch_event_tables(1)": "pgq.event_1_0",
    "select tick_id from pgq.get_batch_info(1)": 2,
    "select pgq.event_retry(1, 1, 0)": 1,
    f"select pgq.event_retry(1, array[ev_id], array[ev_txid], '{{0s}}') from ({EVENT}) e": 1,
    "select pgq.batch_retry(1, 0)": 1,
    f"select pgq.event_dead(1, array[ev_id], array[ev_txid], '{{why}}') from ({EVENT}) e": 1,
    "select pgq.finish_batch(1)": 1,
    "select last_tick from pgq.get_consumer_info('q', 'c')": 1,
    "select last_tick_id from pgq.get_queue_info('q')": 5,
}
ONLY_FRESH = {
    "select pgq.next_batch('q', 'c')": 1,
    "select cur_tick_id from pgq.next_batch_info('q', 'c')": 2,
    "select pgq.register_consumer('q', 'new')": 1,
    "select pgq.register_consumer_at('q', 'c', 1)": 0,
    FIND_TICK: 5,
    "select pgq.slowest_tick(1)": 1,
    "select pgq.maint_ticks('q')": 0,
    "select replay_tick from pgq.begin_replay('q', 'c', 'all', '-infinity', 'infinity')": 0,
    "select pgq.drop_queue('q', true)": 1,
    "select tick_id from pgq.tick_queue('q')": 6,
    "select pgq.maint_positions()": 0,
    "select pgq.maint_rotate_tables_step1('q')": 0,
    "select sub_last_tick from pgq.subscription": 1,
    "select max(tick_id) from pgq.tick": 5,
    "select pgq.unregister_consumer('q', 'c')": 1,
}


def leave_a_batch_open(db: Database) -> None:
    """Leave a batch open, with four ticks in one second behind it."""
    db.queue()
    db.main.tick_after("a")
    number = "update pgq.position set pos_batch = 1 where pos_batch = %s returning pos_batch"
    assert db.main.one(number, db.main.next()) == 1
    db.main.tick_after(*"bcd")
    db.main.run("update pgq.tick set tick_time = '2026-01-01 12:00:00.5'")


def _ticks(session: Session) -> list[int]:
    return [row[0] for row in session.all("select tick_id from pgq.tick order by 1")]


@COMPACTIONS
def test_call_that_waited_for_a_compaction_answers_as_ever(
    db: Database, subtests: pytest.Subtests, compact: str
) -> None:
    leave_a_batch_open(db)
    for call in [*ANSWERS, *ONLY_FRESH]:
        with subtests.test(call=call):
            answers_after_waiting(db, compact, call)


def answers_after_waiting(db: Database, compact: str, call: str) -> None:
    """Let a call wait for a compaction, compare its answer, and take back what it did."""
    db.main.one("select pgq.compact_ticks()")
    db.main.run("insert into pgq.tick_recent select * from only pgq.tick where tick_id = 5")
    db.main.run("delete from only pgq.tick where tick_id = 5")
    with closing(Session(db.dsn)) as keeper, closing(Session(db.dsn)) as other:
        keeper.begin()
        assert keeper.one(f"select pgq.{compact}()") is True
        other.begin()
        answer = other.later(call)
        eventually(lambda: answer.done() or db.main.all(BLOCKED_SQL, other.pid))
        keeper.commit()
        assert answer.result(timeout=30) == {**ANSWERS, **ONLY_FRESH}[call]
        other.rollback()


@COMPACTIONS
def test_snapshot_from_before_a_compaction_is_told_to_call_again(
    db: Database, subtests: pytest.Subtests, compact: str
) -> None:
    leave_a_batch_open(db)
    for call in ANSWERS:
        with subtests.test(call=call):
            refused_once(db, compact, RR, call)


def refused_once(db: Database, compact: str, isolation: str, call: str) -> None:
    """Compact under an old snapshot: its call is refused, and answered in the next transaction."""
    db.main.one("select pgq.compact_ticks()")
    with closing(Session(db.dsn)) as late:
        late.begin(isolation)
        assert db.main.one(f"select pgq.{compact}()") is True
        with refused("40001"):
            late.one(call)
        late.rollback()
        late.begin(isolation)
        assert late.one(call) == ANSWERS[call]
        late.rollback()


def test_batch_that_is_not_open_is_said_not_to_be_after_a_compaction(db: Database) -> None:
    leave_a_batch_open(db)
    assert db.main.finish(1) == 1
    db.main.one("select pgq.compact_positions()")
    late = db.open()
    late.begin(RR)
    assert late.finish(1) == 0
    with refused("PQ003"):
        late.events(1)


@COMPACTIONS
def test_compaction_is_put_off_while_somebody_works_in_a_transaction(
    db: Database, compact: str
) -> None:
    leave_a_batch_open(db)
    worker = db.open()
    worker.begin()
    worker.next()
    before = db.main.all("select relname, relfilenode from pg_class order by 1")
    assert db.main.one(f"select pgq.{compact}()") is False
    assert db.main.all("select relname, relfilenode from pg_class order by 1") == before
    assert worker.finish(1) == 1
    worker.commit()
    assert db.main.one(f"select pgq.{compact}()") is True


@COMPACTIONS
def test_compaction_that_waited_for_a_worker_keeps_what_it_did(db: Database, compact: str) -> None:
    leave_a_batch_open(db)
    assert db.main.finish(1) == 1
    db.main.run(f"alter function pgq.{compact}() set lock_timeout = '60s'")
    worker, keeper = db.open(), db.open()
    worker.begin()
    batch = worker.next()
    done = keeper.later(f"select pgq.{compact}()")
    wait_until_blocked(db.main.connection, keeper.pid)
    worker.commit()
    assert done.result(timeout=30) is True
    assert db.main.next() == batch
    assert db.main.data(batch) == ["b"]


@COMPACTIONS
def test_compaction_needs_read_committed(db: Database, compact: str) -> None:
    leave_a_batch_open(db)
    keeper = db.open()
    keeper.begin(RR)
    with refused("PQ013"):
        keeper.one(f"select pgq.{compact}()")


def test_compaction_keeps_every_position(db: Database) -> None:
    leave_a_batch_open(db)
    for name in ("idle", "new"):
        db.main.one("select pgq.register_consumer('q', %s)", name)
    before = db.main.all("select * from pgq.subscription order by 1")
    assert db.main.one("select count(*) from pgq.position") == 4
    db.main.one("select pgq.compact_positions()")
    assert db.main.all("select * from pgq.subscription order by 1") == before
    assert db.main.one("select count(*) from pgq.position") == 3
    assert db.main.finish(1) == 1
    assert db.main.drain() == ["b", "c", "d"]


def test_compaction_keeps_the_ticks_of_an_open_batch_and_the_last_of_a_second(db: Database) -> None:
    leave_a_batch_open(db)
    assert _ticks(db.main) == [1, 2, 3, 4, 5]
    db.main.one("select pgq.compact_ticks()")
    assert _ticks(db.main) == [1, 2, 5]
    assert db.main.one("select count(*) from pgq.tick_recent") == 0
    assert list(db.main.batches()) == [["a"], ["b", "c", "d"]]
    db.main.insert("e")
    assert db.main.deliver() == ["e"]


def test_tick_that_was_thinned_out_can_not_be_registered_at(db: Database) -> None:
    leave_a_batch_open(db)
    db.main.one("select pgq.compact_ticks()")
    with pytest.raises(Exception, match="tick not found: 4") as failed:
        db.main.one("select pgq.register_consumer_at('q', 'd', 4)")
    assert "before this one: 2" in str(failed.value)
    assert db.main.one("select pgq.register_consumer_at('q', 'd', 2)") == 1
    assert db.main.drain("d") == ["b", "c", "d"]


def test_ticks_that_come_from_elsewhere_are_all_kept(db: Database) -> None:
    leave_a_batch_open(db)
    db.main.one("select pgq.set_queue_config('q', 'external_ticker', 'true')")
    db.main.one("select pgq.compact_ticks()")
    assert _ticks(db.main) == [1, 2, 3, 4, 5]
    with refused("PQ009"):
        db.main.one("select pgq.ticker('q', 5, now(), 10)")
    assert db.main.one("select pgq.ticker('q', 6, now(), 10)") == 6


def test_rotation_goes_on_from_ticks_that_were_kept(db: Database) -> None:
    leave_a_batch_open(db)
    assert len(db.main.drain()) == 4
    for number in range(6):
        db.main.insert("more")
        assert db.main.deliver() == ["more"]
        db.main.one("select pgq.compact_ticks()")
        assert db.main.rotate() == (number + 1) % 3
        db.main.one("select pgq.maint_ticks('q')")
    low = db.main.one("select queue_low_tick from pgq.queue")
    assert low > 5
    assert min(_ticks(db.main)) == low


def test_held_xmin_lets_nothing_grow(db: Database) -> None:
    db.queue()
    db.open().begin(RR)
    sizes = []
    for _ in range(3):
        db.main.run(WORK)
        for call in ("maint_ticks('q')", "maint_recent_ticks()", "maint_positions()"):
            assert db.main.one(f"select pgq.{call}") == 0
        sizes.append(db.main.one(SIZE))
    assert max(sizes) < 100_000  # bytes
    assert len(_ticks(db.main)) < 10
    db.main.insert("after all")
    assert db.main.deliver() == ["after all"]


def test_deleted_ticks_are_walked_over_only_once(db: Database) -> None:
    db.queue()
    db.open().begin(RR)
    db.main.run(WORK)
    db.main.one("select pgq.maint_recent_ticks()")
    db.main.run("""
        insert into pgq.tick
        select tick_queue, n, tick_time, tick_snapshot, tick_event_seq
          from pgq.tick cross join generate_series(2, 19000) n where tick_id = 1""")
    last = db.main.one("select max(tick_id) from pgq.tick")
    db.main.one("select pgq.register_consumer_at('q', 'c', %s)", last)
    db.main.run(f"update pgq.queue set queue_low_tick = {last}")
    while db.main.one("select pgq.maint_ticks('q')"):
        pass
    assert _ticks(db.main) == [last]
    pages = [db.main.pages("select pgq.maint_ticks('q')") for _ in range(3)]
    assert pages[0] > 100
    assert pages[2] < 50


SIZE = "select pg_relation_size('pgq.position') + pg_relation_size('pgq.tick_recent')"
# What 20,000 ticks and positions leave behind.
WORK = """
    insert into pgq.position
    select pos_sub, pos_no + n, pos_last_tick
      from (select * from pgq.position order by pos_no desc limit 1) newest
     cross join generate_series(1, 20000) n;
    insert into pgq.tick_recent
    select tick_queue, nextval('pgq.event_1_tick_seq'), tick_time, tick_snapshot, tick_event_seq
      from (select * from pgq.tick order by tick_id desc limit 1) newest
     cross join generate_series(1, 20000) n
"""
