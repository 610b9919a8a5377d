"""G1: a committed event reaches every consumer registered before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.sessions import RC, RR, SERIALIZABLE, refused
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

OLD_SNAPSHOTS = pytest.mark.parametrize("isolation", [RR, SERIALIZABLE])


def _churn(db: Database, rotations: int) -> int:
    """Let others produce and consume while the queue rotates; return its current table."""
    table = -1
    for number in range(rotations):
        db.main.insert(f"other {number}")
        assert db.main.deliver() == [f"other {number}"]
        table = db.main.rotate()
    return table


@OLD_SNAPSHOTS
def test_table_of_an_old_snapshot_is_not_truncated_unread(db: Database, isolation: str) -> None:
    db.queue()
    producer = db.open()
    producer.begin(isolation)
    assert _churn(db, 2) == 2
    producer.insert("late")  # into table 0, which is the next to be truncated
    producer.commit()
    assert db.main.rotate() == 2
    assert db.main.deliver() == ["late"]
    assert db.main.rotate() == 0


def test_producer_that_waits_for_a_table_lock_over_two_rotations(db: Database) -> None:
    db.queue()
    locker, producer = db.open(), db.open()
    locker.begin()
    locker.run("lock table pgq.event_1_0 in share mode")
    inserted = producer.later("select pgq.insert_event('q', 't', 'late')")
    wait_until_blocked(db.main.connection, producer.pid)
    assert db.main.rotate() == 1
    assert _churn(db, 1) == 2
    assert _churn(db, 1) == 2  # the locked table is next: rotation waits for another time
    locker.commit()
    inserted.result(timeout=30)
    assert db.main.rotate() == 2
    assert db.main.deliver() == ["late"]


def test_event_in_progress_at_the_last_tick_is_not_truncated_unread(db: Database) -> None:
    db.queue()
    producer = db.open()
    producer.begin()
    producer.insert("late")
    assert _churn(db, 2) == 2
    producer.commit()
    assert db.main.rotate() == 2
    assert db.main.deliver() == ["late"]
    assert db.main.rotate() == 0


def test_copy_into_a_table_learned_before_rotations(db: Database) -> None:
    db.queue()
    producer = db.open()
    producer.begin()
    table = producer.current_table()
    assert _churn(db, 2) == 2
    producer.copy(table, "a", "b")
    assert db.main.rotate() == 2
    producer.commit()
    assert db.main.rotate() == 2
    assert db.main.deliver() == ["a", "b"]


def test_events_of_one_transaction_in_several_tables_are_one_batch(db: Database) -> None:
    db.queue()
    producer = db.open()
    producer.begin()
    for number in range(3):
        producer.insert(f"mine {number}")
        _churn(db, 1)
    producer.commit()
    db.main.tick()
    assert list(db.main.batches()) == [["mine 0", "mine 1", "mine 2"]]


def _hold_open(producer: Session) -> None:
    """A transaction that stays open."""


def _prepare(producer: Session) -> None:
    producer.run("prepare transaction 'held'")


@pytest.mark.parametrize(
    ("hold", "end"), [(_hold_open, "commit"), (_prepare, "commit prepared 'held'")]
)
def test_transaction_open_over_a_thousand_ticks_and_three_rotations(
    db: Database, hold: object, end: str
) -> None:
    db.queue(ntables="5")
    producer = db.open()
    producer.begin()
    producer.insert("held")
    assert callable(hold)
    hold(producer)
    for rotation in range(1, 4):
        _ticks_with_events(db.main, 334)
        assert len(db.main.drain()) == 334
        assert db.main.rotate() == rotation
    _ticks_with_events(db.main, 5)
    producer.run(end)
    db.main.tick()
    *before, last = db.main.batches()
    assert len(before) == 5
    assert last == ["held"]


def _ticks_with_events(session: Session, count: int) -> None:
    session.run(f"""
        do $$
        begin
            for number in 1 .. {count} loop
                perform pgq.insert_event('q', 't', 'other');
                commit;
                perform pgq.tick_queue('q');
                commit;
            end loop;
        end $$""")


def test_long_transaction_costs_a_batch_one_listed_txid(db: Database) -> None:
    db.queue(ntables="5")
    producer = db.open()
    producer.begin()
    producer.insert("held")
    txid = producer.one("select txid_current()")
    _ticks_with_events(db.main, 50)
    db.main.drain()
    db.main.tick_after("new")
    batch = db.main.next()
    assert str(txid) not in db.main.one("select pgq.batch_event_sql(%s)", batch)
    producer.commit()
    db.main.finish(batch)
    db.main.tick()
    query = db.main.one("select pgq.batch_event_sql(%s)", db.main.next())
    assert f"any ('{{{txid}}}'::pg_catalog.int8[])" in query


def _fill(db: Database, others: int) -> None:
    """Make more queues: beyond a few, the code that inserts is spread over several functions."""
    for number in range(others):
        db.main.one("select pgq.create_queue(%s)", f"other{number}")


@pytest.mark.parametrize("others", [0, 63])
def test_queue_made_in_the_middle_of_a_transaction_gets_its_events(
    db: Database, others: int
) -> None:
    db.queue("q")
    _fill(db, others)
    producer = db.open()
    producer.begin(RC)
    producer.insert("for q")
    db.queue("new")
    producer.insert("for new", "new")
    producer.commit()
    assert db.main.deliver(queue="new") == ["for new"]
    assert db.main.deliver(queue="q") == ["for q"]


@pytest.mark.parametrize("others", [0, 64])
def test_queue_that_grew_in_the_middle_of_a_transaction_gets_its_events(
    db: Database, others: int
) -> None:
    db.queue()
    _fill(db, others)
    producer = db.open()
    producer.begin(RC)
    producer.insert("before")
    db.main.one("select pgq.set_queue_config('q', 'ntables', '4')")
    assert _churn(db, 3) == 3
    producer.insert("after")
    producer.commit()
    assert db.main.deliver() == ["before", "after"]


@pytest.mark.parametrize("others", [0, 62])
def test_queue_dropped_behind_an_old_snapshot_takes_no_event_elsewhere(
    db: Database, others: int
) -> None:
    for name in ("a", "b", "c"):
        db.queue(name)
    _fill(db, others)
    producer = db.open()
    producer.begin(RR)
    db.main.one("select pgq.drop_queue('b', true)")
    with refused("PQ001"):
        producer.insert("nowhere", "b")
    producer.rollback()
    assert [db.main.deliver(queue=name) for name in ("a", "c")] == [[], []]


def test_dump_in_progress_holds_up_a_rotation_and_nothing_else(db: Database) -> None:
    db.queue()
    reader = db.open()
    reader.begin(RR)
    reader.one("select count(*) from pgq.event_1_1")  # as pg_dump would
    assert _churn(db, 2) == 0
    reader.commit()
    assert _churn(db, 1) == 1


READS = {
    "get_batch_events": "select * from pgq.get_batch_events({batch})",
    "get_batch_cursor": "select * from pgq.get_batch_cursor({batch}, 'c', 10)",
    "batch_event_sql": "select pgq.batch_event_sql({batch})",
    "get_tick_events": "select * from pgq.get_tick_events('q', {first}, {last})",
    "tick_event_sql": "select pgq.tick_event_sql('q', {first}, {last})",
}
SWITCH = "do $$ begin execute format('alter table %s {} row level security', {}); end $$"
TABLE = "(select queue_data_pfx from pgq.queue)"


@pytest.mark.alone
def test_hidden_event_is_an_error(db: Database) -> None:
    db.queue()
    db.main.insert("a")
    last = db.main.tick()
    reader = db.open()
    reader.run("set role pgq_reader")
    batch = reader.next()
    for switched in ("enable", "disable", "enable", "disable"):
        db.main.run(SWITCH.format(switched, TABLE))
        for read in READS.values():
            query = read.format(batch=batch, first=last - 1, last=last)
            if switched == "enable":
                with refused("42501"):
                    reader.all(query)
            else:
                reader.begin()
                assert reader.all(query)
                reader.commit()
    assert reader.drain() == ["a"]
