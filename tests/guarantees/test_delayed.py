"""Delayed events: each comes once when it is due, whenever its transaction committed."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.guarantees.delayed import (
    FEW,
    MOVE,
    come,
    delay,
    delay_until_due,
    few_a_call,
    move,
    soon,
    wait_until,
)
from tests.guarantees.sessions import MORE_PAGES, RR, Database, refused
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database


WAITING = "select count(*) from pgq.delayed_event"
SEEN = "'pgq.due_seen_' || pg_relation_filenode('pgq.delayed_event')"
AN_HOUR_LATER = f"""
    select set_config({SEEN}, regexp_replace(seen, '^[^|]*', (now() + interval '1 hour')::text),
               false)
      from current_setting({SEEN}) seen"""


def test_event_comes_when_it_is_due_with_its_id_and_the_due_time(db: Database) -> None:
    db.queue()
    time = soon(db.main)
    (event_id,) = delay(db.main, time, "a")
    assert move(db.main) == 0
    assert db.main.deliver() == []
    wait_until(db.main, time)
    assert move(db.main) == 1
    db.main.tick()
    batch = db.main.next()
    found = db.main.all(
        "select ev_id, ev_time, ev_data, ev_owner, ev_retry from pgq.event_1 where ev_data = 'a'"
    )
    assert found == [(event_id, time, "a", None, None)]
    assert db.main.data(batch) == ["a"]


def test_event_of_a_time_that_has_passed_is_inserted_at_once(db: Database) -> None:
    db.queue()
    for time in ("now() - interval '1 year'", "'-infinity'", "now()"):
        db.main.one(f"select pgq.insert_event_at('q', {time}, 't', 'a')")
    assert db.main.one(WAITING) == 0
    assert db.main.one("select min(ev_time) > now() - interval '1 minute' from pgq.event_1")
    assert db.main.deliver() == ["a"] * 3


def test_event_that_was_rolled_back_never_comes(db: Database) -> None:
    db.queue()
    db.main.begin()
    delay(db.main, soon(db.main), "outside")
    db.main.run("savepoint inside")
    time = soon(db.main)
    delay(db.main, time, "inside")
    db.main.run("rollback to inside")
    db.main.commit()
    other = db.open()
    other.begin()
    delay(other, time, "other")
    other.rollback()
    wait_until(db.main, time)
    assert come(db) == ["outside"]


@pytest.mark.parametrize("xid", ["select 1", "select txid_current()"], ids=["later", "earlier"])
def test_event_that_is_committed_after_its_time_comes(db: Database, xid: str) -> None:
    db.queue()
    other = db.open()
    other.begin()
    other.one(xid)
    move(db.main)
    time = soon(other)
    delay(other, time, "a")
    wait_until(db.main, time)
    db.main.insert("something that ends meanwhile")
    assert come(db) == ["something that ends meanwhile"]
    other.commit()
    assert come(db) == ["a"]


def test_event_of_the_transaction_that_moves_comes(db: Database) -> None:
    db.queue()
    db.main.begin()
    db.main.one("select txid_current()")
    db.open().one("select txid_current()")  # so that ours is not the newest
    db.main.one(MOVE)
    db.main.one(AN_HOUR_LATER)
    time = soon(db.main)
    delay(db.main, time, "a")
    wait_until(db.main, time)
    db.main.commit()
    db.open().one("select txid_current()")
    assert come(db) == ["a"]


def test_event_that_is_due_earlier_is_never_in_a_later_batch(db: Database) -> None:
    db.queue()
    few_a_call(db)
    first = soon(db.main)
    for number in range(2 * FEW):
        delay(db.main, first - timedelta(milliseconds=number), str(number))
    wait_until(db.main, first)
    order = []
    while db.main.one(MOVE):
        order.append(db.main.deliver())
    numbers = range(2 * FEW)
    assert order == [[str(n) for n in numbers[FEW:]], [str(n) for n in numbers[:FEW]]]


def test_second_mover_moves_nothing_while_the_first_has_not_committed(db: Database) -> None:
    db.queue()
    few_a_call(db)
    delay_until_due(db.main, *"abcdef")
    other = db.open()
    other.begin()
    assert other.one(MOVE) == FEW
    assert db.main.one(MOVE) == 0
    other.rollback()
    assert come(db) == list("abcdef")


def test_queues_take_turns(db: Database) -> None:
    db.queue()
    db.queue("other")
    few_a_call(db)
    delay_until_due(db.main, *"abcdefghi")
    delay_until_due(db.main, "x", queue="other")
    db.main.one(MOVE)
    db.main.one(MOVE)
    assert db.main.deliver(queue="other") == ["x"]
    assert come(db) == list("abcdefghi")


def test_queue_that_cannot_take_its_events_makes_no_look_of_others_longer(db: Database) -> None:
    db.queue()
    db.queue("other")
    delay_until_due(db.main, "a")
    db.main.run("alter table pgq.event_1_0 rename to hidden")
    db.open().begin(RR)  # holds xmin
    assert db.main.one(MOVE) == 0
    before = _pages(db)
    for _ in range(5):
        delay_until_due(db.main, *map(str, range(500)), queue="other")
        assert move(db.main) == 500
    assert _pages(db) <= before + 2 * MORE_PAGES  # it looks at both queues
    db.main.run("alter table pgq.hidden rename to event_1_0")
    assert come(db) == ["a"]


def _pages(db: Database) -> int:
    """Return how many pages a look reads that finds nothing."""
    db.main.one(MOVE)
    return db.main.pages("select * from pgq.move_delayed_events('{q}')")


def test_look_reads_no_more_pages_after_many_events_while_xmin_is_held(db: Database) -> None:
    db.queue()
    db.open().begin(RR)
    delay_until_due(db.main, "a")
    before = _pages(db)
    for _ in range(5):
        delay_until_due(db.main, *map(str, range(1000)))
        assert move(db.main) >= 1000
    assert db.main.one(WAITING) == 0
    assert _pages(db) <= before + MORE_PAGES


def test_limit_of_a_move_holds_with_outdated_statistics(db: Database) -> None:
    """They lead to a nested loop. A choice of rows inside of it would be made for each row."""
    db.queue()
    delay_until_due(db.main, *map(str, range(60)))
    move(db.main)
    db.main.run("analyze pgq.delayed_event")
    delay_until_due(db.main, *map(str, range(3000)))
    assert [db.main.one(MOVE) for _ in range(3)] == [2000, 1000, 0]


def test_event_inserted_after_the_clock_was_stepped_back_comes(db: Database) -> None:
    db.queue()
    move(db.main)
    db.main.one(AN_HOUR_LATER)
    delay_until_due(db.main, "a")
    assert come(db) == ["a"]


def test_moved_events_count_in_estimates(db: Database) -> None:
    db.queue()
    delay_until_due(db.main, *map(str, range(100)))
    db.main.deliver()
    move(db.main)
    db.main.tick()
    assert db.main.one("select pending_events from pgq.get_consumer_info('q', 'c')") == 100


def test_ticker_that_knows_nothing_of_delayed_events_moves_them(db: Database) -> None:
    db.queue()
    operation = "select func_name from pgq.maint_operations() where func_name ~ 'delayed'"
    assert db.main.one(operation) is None
    delay_until_due(db.main, "a")
    function = db.main.one(operation)
    assert db.main.one(f"select {function}()") == 1
    assert db.main.one(f"select {function}()") == 0
    assert db.main.deliver() == ["a"]


def test_commit_of_a_delayed_event_is_news_until_the_next_look(db: Database) -> None:
    db.queue()
    news = "select pgq.delayed_events_are_new()"
    assert db.main.one(news)
    other = db.open()
    other.begin()
    delay(other, soon(other), "a")
    db.main.insert("of a later transaction")
    move(db.main)
    db.main.insert("no delayed event")
    assert not db.main.one(news)
    other.commit()
    assert db.main.one(news)
    move(db.main)
    assert not db.main.one(news)


ONE = "select pgq.insert_event_at('q', {}, 't', 'a')"
MANY = "select * from pgq.insert_events_at('q', {}, array['t'], array['a'])"
LATER = "now() + interval '1 hour'"
STAGE = "select pgq.open_stage('q', 'w', 1)"
REPAIR = "select pgq.repair_queue('q')"


def test_time_that_never_comes_is_refused(db: Database) -> None:
    db.queue()
    for time in ("null", "'infinity'", "now() + interval '101 years'"):
        for call in (ONE, MANY):
            with refused("PQ009"):
                db.main.one(call.format(time))


@pytest.mark.parametrize("call", [ONE, MANY])
def test_limits_act_on_the_call(db: Database, call: str) -> None:
    db.queue()
    with refused("PQ001"):
        db.main.one(call.replace("'q'", "'missing'").format(LATER))
    with refused("PQ009"):
        db.main.one(call.replace("'q'", "null").format(LATER))
    db.main.one("select pgq.set_queue_config('q', 'per_tx_limit', '1')")
    db.main.begin()
    db.main.one(call.format(LATER))
    with refused("PQ007"):
        db.main.one(call.format(LATER))
    db.main.rollback()
    delay_until_due(db.main, "a")
    db.main.one("select pgq.set_queue_config('q', 'disable_insert', 'true')")
    with refused("PQ006"):
        db.main.one(call.format(LATER))
    assert come(db) == ["a"]


def test_stage_takes_no_delayed_events(db: Database) -> None:
    db.queue()
    for first, second in ((STAGE, ONE), (STAGE, MANY), (ONE, STAGE), (MANY, STAGE)):
        db.main.begin()
        db.main.one(first.format(LATER))
        with refused("PQ009"):
            db.main.one(second.format(LATER))
        db.main.rollback()


@pytest.mark.parametrize("moves_first", [False, True])
def test_stage_takes_no_events_that_others_delayed(db: Database, moves_first: bool) -> None:
    """They would be hidden with the stage, and lost with one that is dropped."""
    db.queue()
    delay_until_due(db.main, "a")
    db.main.begin()
    if moves_first:
        assert move(db.main) == 1
        with refused("PQ009"):
            db.main.one(STAGE)
        db.main.rollback()
    else:
        db.main.one(STAGE)
        assert move(db.main) == 0
        db.main.commit()
    assert come(db) == ["a"]


def test_drop_waits_for_an_insert_and_removes_what_waits(db: Database) -> None:
    db.queue()
    db.queue("other")
    delay(db.main, db.main.one(f"select {LATER}"), "kept", queue="other")
    producer, admin = db.open(), db.open()
    producer.begin()
    producer.one(ONE.format(LATER))
    dropped = admin.later("select pgq.drop_queue('q', true)")
    wait_until_blocked(db.main.connection, admin.pid)
    producer.commit()
    assert dropped.result() == 1
    assert db.main.all("select ev_data from pgq.delayed_event") == [("kept",)]
    with refused("PQ001"):
        producer.one(ONE.format(LATER))


def test_events_of_a_restored_queue_wait_for_the_repair(db: Database) -> None:
    db.queue()
    db.main.insert("before")
    delay_until_due(db.main, "a")
    assert db.main.deliver() == ["before"]
    db.main.run("""
        update pgq.event_1 set ev_txid = ev_txid + 1000000;
        update pgq.delayed_event set ev_txid = ev_txid + 1000000;
        update pgq.tick
           set tick_snapshot = format('%s:%s:', 1000000 + txid_snapshot_xmin(tick_snapshot),
                   1000000 + txid_snapshot_xmax(tick_snapshot))::txid_snapshot
    """)  # a restore where transaction ids are smaller: those of the dump lie beyond this cluster's
    assert (db.main.one(MOVE), db.main.one(WAITING)) == (0, 1)
    db.main.one(REPAIR)
    assert come(db) == ["a"]


def test_copy_without_its_sequences_gives_no_id_twice(db: Database) -> None:
    db.queue()
    db.main.insert("before")
    assert db.main.deliver() == ["before"]
    time = soon(db.main)
    (waiting,) = delay(db.main, time, "a")
    # A copy by logical replication, in another cluster.
    db.main.run("select setval('pgq.event_1_id_seq', 1); update pgq.queue set queue_system_id = 1")
    with refused("PQ012"):
        db.main.tick()
    db.main.one(REPAIR)
    assert db.main.insert("after") > waiting
    wait_until(db.main, time)
    assert sorted(come(db)) == ["a", "after"]
