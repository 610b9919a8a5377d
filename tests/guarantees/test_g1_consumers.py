"""G1 seen from consumers: whoever registered before an event was committed gets it, and retries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.guarantees.sessions import RC
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session


def test_every_consumer_gets_every_event(db: Database) -> None:
    db.queue(consumers=("c", "d"))
    db.main.insert("both")
    assert db.main.deliver() == ["both"]
    db.main.one("select pgq.register_consumer('q', 'late')")
    db.main.tick_after("all")
    assert [db.main.drain(name) for name in "cd"] == [["all"], ["both", "all"]]
    assert db.main.drain("late") == ["all"]


def test_tick_grows_old_while_the_transaction_that_asks_goes_on(db: Database) -> None:
    db.queue()
    consumer = db.open()
    consumer.begin()
    db.main.insert("a")
    tick = db.main.tick()
    began = consumer.one("select now()")
    db.main.one("update pgq.tick set tick_time = %s where tick_id = %s returning 1", began, tick)
    query = "select batch_id from pgq.next_batch_custom('q', 'c', '1 microsecond', null, null)"
    assert consumer.data(consumer.one(query)) == ["a"]


def test_slow_consumer_holds_its_events_against_rotation(db: Database) -> None:
    db.queue(consumers=("c", "slow"))
    db.main.insert("unread")
    for _ in range(6):
        _churn_for_c(db.main)
    assert db.main.drain("slow")[:1] == ["unread"]
    assert _rotates(db.main)


def _churn_for_c(session: Session) -> None:
    session.tick()
    session.drain("c")
    session.rotate()
    session.one("select pgq.maint_ticks('q')")


def _rotates(session: Session) -> bool:
    before = session.one("select queue_cur_table from pgq.queue where queue_id = 1")
    return session.rotate() != before


def test_consumer_that_comes_while_a_rotation_counts_is_counted(db: Database) -> None:
    db.queue()
    db.main.insert("old")
    first = db.main.tick() - 1
    db.main.drain()
    newcomer, rotator = db.open(), db.open()
    newcomer.begin()
    newcomer.one("select pgq.register_consumer_at('q', 'newcomer', %s)", first)
    _rotate_past_a_newcomer(db, newcomer, rotator)
    assert db.main.drain("newcomer")[0] == "old"


def _rotate_past_a_newcomer(db: Database, newcomer: Session, rotator: Session) -> None:
    rotation = rotator.later("select pgq.maint_rotate_tables_step1('q')")
    wait_until_blocked(db.main.connection, rotator.pid)
    newcomer.commit()
    rotation.result(timeout=30)
    rotator.one("select pgq.maint_rotate_tables_step2()")
    for _ in range(5):
        _churn_for_c(db.main)


def test_rotation_waits_for_a_consumer_that_has_looked_at_its_tick(db: Database) -> None:
    db.queue(consumers=())
    db.queue("other", consumers=())
    db.main.tick_after("old")
    blocker, newcomer, rotator = db.open(), db.open(), db.open()
    blocker.begin()
    blocker.one("select pgq.register_consumer('other', 'newcomer')")
    coming = newcomer.later("select pgq.register_consumer_at('q', 'newcomer', 1)")
    wait_until_blocked(db.main.connection, newcomer.pid)
    rotation = rotator.later("select pgq.maint_rotate_tables_step1('q')")
    assert wait_until_blocked(db.main.connection, rotator.pid) == [newcomer.pid]
    blocker.commit()
    assert coming.result(timeout=30) == 1
    rotation.result(timeout=30)
    for _ in range(4):
        db.main.tick()
        db.main.rotate()
        db.main.one("select pgq.maint_ticks('q')")
    assert db.main.drain("newcomer") == ["old"]


def test_consumer_that_comes_while_ticks_are_deleted_keeps_its_tick(db: Database) -> None:
    db.queue(consumers=())
    for _ in range(3):
        db.main.tick()
        db.main.rotate()
    lowest = db.main.one("select queue_low_tick from pgq.queue where queue_id = 1")
    db.behind(
        lambda newcomer: newcomer.one(
            "select pgq.register_consumer_at('q', 'newcomer', %s)", lowest
        ),
        "select pgq.maint_ticks('q')",
    )
    db.main.insert("new")
    assert db.main.deliver("newcomer") == ["new"]


def test_event_in_the_transaction_that_made_queue_and_consumer(db: Database) -> None:
    db.queue()
    session = db.open()
    session.begin()
    session.one("select txid_current()")
    for number in range(3):  # younger transactions end first
        db.main.insert(str(number))
    session.one("select pgq.create_queue('new')")
    session.one("select pgq.register_consumer('new', 'c')")
    session.insert("first", "new")
    session.commit()
    assert db.main.deliver(queue="new") == ["first"]


def test_event_after_a_tick_and_a_registration_in_one_transaction(db: Database) -> None:
    db.queue()
    session = db.open()
    session.begin(RC)
    session.insert("before the tick")
    db.main.insert("other")
    session.tick()
    session.one("select pgq.register_consumer('q', 'new')")
    session.insert("after it")
    session.commit()
    db.main.tick()
    assert db.main.drain("new") == ["before the tick", "after it"]
    assert sorted(db.main.drain("c")) == ["after it", "before the tick", "other"]


def test_event_inserted_after_a_tick_and_a_batch_in_one_transaction_is_delivered(
    db: Database,
) -> None:
    """A job that ticks, takes what there is, and inserts a result into the same queue."""
    db.queue()
    session = db.open()
    session.begin(RC)
    session.insert("before the tick")
    db.main.insert("other")
    session.tick()
    assert session.drain() == ["other"]
    session.insert("after it")
    session.commit()
    assert db.main.deliver() == ["before the tick", "after it"]


def test_thousands_of_retries_due_are_drained(db: Database) -> None:
    db.queue()
    db.main.one(
        "select count(pgq.insert_event('q', 't', n::text)) from generate_series(1, 12000) n"
    )
    db.main.tick()
    batch = db.main.next()
    assert db.main.one("select pgq.batch_retry(%s, 0)", batch) == 12_000
    db.main.finish(batch)
    seq = "select event_seq from pgq.ticker_activity() where queue_name = 'q'"
    before = db.main.one(seq)
    moved = [db.main.one("select pgq.maint_retry_events()") for _ in range(3)]
    assert moved == [10_000, 2_000, 0]
    assert db.main.one(seq) > before, "it is news"
    again = db.main.deliver()
    assert sorted(map(int, again)) == list(range(1, 12_001))
    assert db.main.one("select count(*) from pgq.retry_queue") == 0


def test_two_maint_retry_events_at_once_share_the_events(db: Database) -> None:
    db.queue()
    db.main.one("select count(pgq.insert_event('q', 't', n::text)) from generate_series(1, 300) n")
    db.main.tick()
    batch = db.main.next()
    db.main.one("select pgq.batch_retry(%s, 0)", batch)
    db.main.finish(batch)
    one, other = db.open(), db.open()
    one.begin()
    moved = one.one("select pgq.maint_retry_events()")
    moved_meanwhile = other.one("select pgq.maint_retry_events()")
    db.main.tick()
    one.commit()
    assert (moved, moved_meanwhile) == (300, 0)
    assert other.one("select pgq.maint_retry_events()") == 0
    assert len(db.main.deliver()) == 300
