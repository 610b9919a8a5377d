"""get_rotation_info and get_queue_metrics: what queues keep and why, told without reading it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.guarantees.seek import ticked
from tests.guarantees.sessions import RR, refused
from tests.guarantees.stages import commit_stage, stage
from tests.guarantees.stalling import stall

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session


NEXT = """
    select table_no, held_by, holder from pgq.get_rotation_info('q') where state = 'next'
"""
TABLES = """
    select state, first_time = (select tick_time from pgq.tick where tick_id = %s),
           last_time = (select tick_time from pgq.tick where tick_id = %s), total_bytes > 0
      from pgq.get_rotation_info('q') order by table_no
"""
MARKS = "select tick_id from pgq.get_tick_marks('q', %s)"
# A day of ticks of a quiet queue, but for one hour that has twenty a second, in the past.
QUIET_AND_BUSY = """
    insert into pgq.tick
    select 1, 1 + row_number() over (order by at), at, txid_current_snapshot(), 1
      from (
            select now() - interval '1 day' + n * interval '1 min' as at
              from generate_series(1, 1000) n
            union all
            select now() - interval '1 h' + n * interval '50 ms'
              from generate_series(1, 20000) n) ticks
"""


@pytest.mark.alone
def test_tables_show_what_they_hold_and_how_old_it_is(db: Database) -> None:
    db.queue()
    assert [row[0] for row in db.main.all(TABLES, 1, 1)] == ["current", "next", "older"]
    first = ticked(db.main, "a")[-1]
    last = ticked(db.main, "b")[-1]
    db.main.tick()
    assert db.main.all(TABLES, first, last) == [
        ("current", True, True, True),
        ("next", None, None, True),
        ("older", None, None, True),
    ]
    db.main.drain()
    assert db.main.rotate() == 1
    late = db.open()
    late.begin()
    late.insert("c")
    db.main.tick()
    late.commit()
    third = db.main.tick()
    states = [row[0] for row in db.main.all(TABLES, 1, 1)]
    assert states == ["older", "current", "next"]
    assert db.main.all(TABLES, third, third)[1] == ("current", True, True, True)
    with refused("PQ001"):
        db.main.one("select pgq.get_rotation_info('nope')")


def test_due_is_when_the_clock_allows_the_next_rotation(db: Database) -> None:
    db.queue(retention="2 hours", rotation_period="30 min")
    due = "select due - queue_switch_time from pgq.get_rotation_info('q'), pgq.queue where {}"
    assert db.main.one(due.format("state = 'next'")).total_seconds() == 3600
    assert db.main.one(due.format("due is not null and state <> 'next'")) is None
    db.main.run("update pgq.queue set queue_switch_time = now() + interval '1 day'")
    assert db.main.one(
        "select due <= clock_timestamp() from pgq.get_rotation_info('q') where state = 'next'"
    )


@pytest.mark.alone
def test_consumer_that_keeps_the_next_table_is_named(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    assert db.main.all(NEXT) == [(1, None, None)]
    stall(db)
    assert db.main.all(NEXT) == [(0, "consumer", "c")]
    db.main.run("update pgq.registration set sub_detached = now() where sub_consumer = 1")
    assert db.main.all(NEXT) == [(0, None, None)], "as rotation, it waits for nobody detached"
    assert db.main.rotate() == 0


def test_subconsumers_are_named_by_their_consumer(db: Database) -> None:
    db.queue()
    db.main.one("select pgq_coop.register_subconsumer('q', 'c', 'one')")
    ticked(db.main, "a")
    db.main.one("select pgq_coop.next_batch('q', 'c', 'one')")
    db.main.run("update pgq.queue set queue_cur_table = 2")  # the event's table is the next
    assert db.main.all(NEXT) == [(0, "consumer", "c")]


def test_retention_and_stages_are_named(db: Database) -> None:
    db.queue(retention="1 hour")
    to_table = "update pgq.queue set queue_cur_table = {}"
    db.main.run(to_table.format(2))
    stage(db.main, "in another table", writer="v")
    db.main.run(to_table.format(0))
    staged = stage(db.main, "a")
    ticked(db.main, "b")
    db.main.drain()
    db.main.run(to_table.format(2))
    assert db.main.all(NEXT) == [(0, "stage", "w")]
    commit_stage(db.main, staged)
    assert db.main.all(NEXT) == [(0, "ticker", None)]
    db.main.tick()
    db.main.drain()
    assert db.main.all(NEXT) == [(0, "retention", None)]
    db.main.run("update pgq.tick set tick_time = tick_time - interval '2 hours'")
    assert db.main.all(NEXT) == [(0, None, None)]


def test_session_that_holds_the_table_is_named(db: Database) -> None:
    db.queue()
    reader = db.open()
    reader.begin()
    reader.run("lock table pgq.event_1_1 in access share mode")
    assert db.main.all(NEXT) == [(1, "transaction", str(reader.pid))]
    reader.run("lock table pgq.event_1_1 in access exclusive mode")
    assert db.main.all(NEXT) == [(1, "transaction", str(reader.pid))]
    unknown = "select count(*) from pgq.get_rotation_info('q') where total_bytes is null"
    assert db.main.one(unknown) == 1, "the others are told"
    reader.rollback()
    assert db.main.all(NEXT) == [(1, None, None)]


def test_marks_are_few_and_even_in_time_with_the_first_and_the_last_tick(db: Database) -> None:
    db.queue()
    assert db.main.all(MARKS, 2) == [(1,)]
    db.main.run(QUIET_AND_BUSY)
    db.main.run("update pgq.tick set tick_time = now() - interval '1 day' where tick_id = 1")
    for marks in (2, 3, 100, 1000):
        ids = [row[0] for row in db.main.all(MARKS, marks)]
        assert ids == sorted(set(ids))
        assert ids[0] == 1
        assert ids[-1] == 21_001
        assert len(ids) <= marks
    longest = db.main.one(
        "select max(gap) from (select tick_time - lag(tick_time) over (order by tick_id) as gap"
        " from pgq.get_tick_marks('q', 100)) gaps"
    )
    hole = 24 * 60 - 1000 - 60  # minutes without a tick
    assert longest.total_seconds() / 60 <= hole + 1
    wide = db.main.one(
        "select count(*) from (select tick_time - lag(tick_time) over (order by tick_id) as gap"
        " from pgq.get_tick_marks('q', 100)) gaps where gap > interval '30 min'"
    )
    assert wide == 1, "the night has its marks although the busy hour has most ids"


def test_marks_are_few_however_often_the_clock_was_set(db: Database) -> None:
    db.queue()
    db.main.run(
        "insert into pgq.tick select 1, n, now() - n * 7919 % 86400 * interval '1 s',"
        " txid_current_snapshot(), 1 from generate_series(2, 3000) n"
    )
    assert [len(db.main.all(MARKS, marks)) for marks in (10, 100)] == [10, 100]


def test_marks_cost_looks_into_the_index_and_no_walk_over_the_ticks(db: Database) -> None:
    db.queue()
    db.main.run(QUIET_AND_BUSY)
    db.main.all(MARKS, 100)
    assert db.main.pages("select * from pgq.get_tick_marks('q', 100)") < 3000


def test_marks_leave_out_what_cannot_be_read_from(db: Database) -> None:
    db.queue()
    for _ in range(4):
        db.main.tick()
    db.main.run("update pgq.queue set queue_low_tick = 3")
    assert db.main.all(MARKS, 200) == [(3,), (4,), (5,)]
    db.main.run("update pgq.queue set queue_low_tick = 0")
    db.main.run("delete from pgq.tick where tick_id in (3, 4)")
    assert db.main.all(MARKS, 200) == [(1,), (2,), (5,)]
    for wrong in (None, 1, 10_001):
        with refused("PQ009"):
            db.main.one(MARKS, wrong)
    with refused("PQ001"):
        db.main.one("select pgq.get_tick_marks('nope')")


def test_positions_of_consumers_cost_no_walk_over_the_ticks(db: Database) -> None:
    db.queue(consumers=("c", "d", "e", "f"))
    db.main.run("insert into pgq.queue (queue_name) select n from generate_series(1, 1000) n")
    for number, table in enumerate(("tick", "tick_recent")):
        db.main.run(
            f"insert into pgq.{table} select queue_id, {number}, now(), txid_current_snapshot(), 0"
            " from pgq.queue where queue_name <> 'q'"
        )
    db.main.run(
        "insert into pgq.tick select 1, n, now(), txid_current_snapshot(), n"
        " from generate_series(2, 30000) n"
    )
    db.main.run("analyze")
    looks = "select * from pgq.get_consumer_info()"
    assert [db.main.pages(looks) for _ in range(2)][1] < 500


METRICS = """
    select round(extract(epoch from oldest_event_age))::int,
           round(extract(epoch from newest_event_age))::int, estimated_events, total_bytes
      from pgq.get_queue_metrics('q')
"""
MINUTES = "update pgq.tick set tick_time = clock_timestamp() - (100 - tick_id) * interval '1 min'"
LOCKED = """
    select count(*) from pg_locks
    where relation in (select inhrelid from pg_inherits where inhparent = 'pgq.event_1'::regclass)
"""


def metrics(session: Session) -> tuple[Any, ...]:
    """Return the ages in seconds, the events and the bytes of the queue."""
    (row,) = session.all(METRICS)
    return row


def test_new_queue_keeps_nothing_but_its_empty_tables(db: Database) -> None:
    db.queue()
    db.main.tick()
    oldest, newest, events, size = metrics(db.main)
    assert (oldest, newest, events) == (None, None, 0)
    assert size > 0
    assert db.main.one("select now() - queue_created < '1 h' from pgq.get_queue_metrics()")
    assert db.main.all("select * from pgq.get_queue_metrics('nope')") == []


def test_ages_are_those_of_the_ticks_that_count_the_first_and_the_last_event(db: Database) -> None:
    db.queue()
    db.main.insert("a")
    assert metrics(db.main)[:3] == (0, 0, 1)
    for events in (1, 0, 0, 2, 0, 0):  # ticks 2 to 7
        for _ in range(events):
            db.main.insert("b")
        db.main.tick()
    db.main.run(MINUTES)
    assert metrics(db.main)[:3] == (98 * 60, 95 * 60, 4)
    db.main.run("delete from pgq.tick where tick_id in (3, 6)")  # thinned
    assert metrics(db.main)[:3] == (98 * 60, 95 * 60, 4)
    db.main.insert("c")
    assert metrics(db.main)[:3] == (98 * 60, 0, 5)


def test_events_that_rotation_took_do_not_count(db: Database) -> None:
    db.queue()
    for data in "abcde":
        db.main.insert(data)
        db.main.deliver()  # ticks 2 to 6
        if data == "c":
            db.main.rotate()
    db.main.run(MINUTES)
    low = db.main.one("select queue_low_tick from pgq.queue where queue_id = 1")
    assert metrics(db.main)[:3] == ((99 - low) * 60, 94 * 60, 6 - low), "as a consumer may go back"
    size = metrics(db.main)[3]
    for _ in range(4):
        db.main.rotate()
        db.main.deliver()
    assert metrics(db.main)[:3] == (None, None, 0)
    assert metrics(db.main)[3] <= size


@pytest.mark.alone
def test_locked_queue_leaves_the_other_figures_and_queues(db: Database) -> None:
    db.queue()
    db.queue("other", consumers=())
    locker = db.open()
    locker.begin()
    locker.run("lock table pgq.event_1_0 in access exclusive mode")
    locker.run("alter sequence pgq.event_1_id_seq owned by none")
    assert db.main.all(
        "select queue_name, estimated_events, total_bytes is null from pgq.get_queue_metrics()"
    ) == [("other", 0, False), ("q", None, True)]


def test_it_reads_no_event_keeps_no_table_locked_and_walks_over_no_ticks(db: Database) -> None:
    def pages() -> int:
        metrics(db.main)
        return db.main.pages(METRICS)

    db.queue()
    db.main.tick_after("a")
    before = pages()
    db.main.one("select count(pgq.insert_event('q', 't', 'd')) from generate_series(1, 20000)")
    db.main.run(
        "insert into pgq.tick select 1, n, now(), txid_current_snapshot(), 1"
        " from generate_series(3, 20000) n"
    )
    assert pages() <= before + 300, "two searches of 15 steps"
    reader = db.open()
    reader.begin(RR)
    assert metrics(reader)[2] == 20_001
    assert reader.one(LOCKED) == 0
