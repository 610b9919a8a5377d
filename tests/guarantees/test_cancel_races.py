"""A cancellation against every way to open a batch: either one first, committed or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.guarantees import cancelling
from tests.guarantees.cancelling import STATES, retry, states, states_later
from tests.guarantees.sessions import refused
from tests.support.gates import wait_until_blocked
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

WAYS = {  # how a batch is opened, and what is needed before
    "plain": ("select pgq.next_batch('q', 'c')", None),
    "subconsumer": (
        "select pgq_coop.next_batch('q', 'c', '1')",
        "select pgq_coop.register_subconsumer('q', 'c', '1')",
    ),
}
ENDS = pytest.mark.parametrize("end", ["commit", "rollback"])
EITHER = pytest.mark.parametrize("way", WAYS)


def one_event(db: Database, way: str) -> tuple[str, int, Session]:
    """Make the queue with an event that is ticked: how to open its batch, its id, a session."""
    db.queue()
    opens, before = WAYS[way]
    if before:
        db.main.one(before)
    event = db.main.insert("a")
    db.main.tick()
    return opens, event, db.open()


def content(session: Session, batch: Any) -> list[str]:
    """Read what is open, if anything is."""
    return [] if batch is None else session.data(batch)


@EITHER
@ENDS
def test_cancellation_that_comes_first_decides(db: Database, way: str, end: str) -> None:
    opens, event, taker = one_event(db, way)
    other = db.open()
    other.begin()
    assert states(other, event) == ["cancelled"]
    waits = taker.later(opens)
    assert wait_until_blocked(db.main.connection, taker.pid) == [other.pid]
    other.run(end)
    batch = waits.result(timeout=30)
    expected = ["a"] if end == "rollback" else []
    assert content(taker, batch) == expected
    assert content(taker, batch) == expected


@EITHER
@ENDS
def test_batch_that_is_opened_first_decides(db: Database, way: str, end: str) -> None:
    opens, event, taker = one_event(db, way)
    taker.begin()
    batch = taker.one(opens)
    assert content(taker, batch) == ["a"]
    other = db.open()
    waits = states_later(other, event)
    assert wait_until_blocked(db.main.connection, other.pid) == [taker.pid]
    taker.run(end)
    assert waits.result(timeout=30) == ["delivered" if end == "commit" else "cancelled"]
    if end == "commit":
        assert content(taker, batch) == ["a"]
    else:
        assert content(taker, taker.one(opens)) == []


def test_copy_that_is_being_moved_is_waited_for_and_hidden(db: Database) -> None:
    db.queue()
    event = db.main.insert("a")
    db.main.tick()
    batch = db.main.next()
    retry(db.main, batch, "a")
    db.main.finish(batch)
    assert db.behind("select pgq.maint_retry_events()", STATES, [event]) == ["cancelled"]
    assert db.main.deliver() == []


def test_event_that_commits_while_the_cancellation_waits_is_found(db: Database) -> None:
    db.queue()
    late, holder, other = db.open(), db.open(), db.open()
    late.begin()
    event = late.insert("a")
    holder.begin()
    holder.one("select from pgq.registration for update")
    waits = states_later(other, event)
    assert wait_until_blocked(db.main.connection, other.pid) == [holder.pid]
    late.commit()
    holder.commit()
    assert waits.result(timeout=30) == ["cancelled"]
    db.main.one("select pgq.register_consumer('q', 'd')")
    assert db.main.deliver() == []
    assert db.main.drain("d") == []


def test_two_cancellations_wait_for_each_other_in_one_order(db: Database) -> None:
    db.queue(consumers=("c", "d", "e"))
    ids = [db.main.insert(data) for data in "ab"]
    one, other = db.open(), db.open()
    one.begin()
    cancelling.cancel(one, ids[0])
    waits = other.later("select count(*) from pgq.cancel_event('q', %s)", ids)
    assert wait_until_blocked(db.main.connection, other.pid) == [one.pid]
    cancelling.cancel(one, ids[1])
    one.commit()
    assert waits.result(timeout=30) == 6
    assert db.main.deliver("e") == []
    assert db.main.one(cancelling.ROWS) == 6, "no row twice"


@ENDS
def test_consumer_that_registers_meanwhile_sees_the_cancellation(db: Database, end: str) -> None:
    db.queue()
    event = db.main.insert("a")
    register = "select pgq.register_consumer('q', 'd')"
    assert db.behind(lambda other: states(other, event), register, end=end) == 1
    assert db.main.deliver("d") == (["a"] if end == "rollback" else [])


@ENDS
def test_cancellation_waits_for_a_consumer_that_registers(db: Database, end: str) -> None:
    db.queue()
    event = db.main.insert("a")
    waits = db.behind(
        "select pgq.register_consumer('q', 'd')",
        "select count(*) from pgq.cancel_event('q', array[%s::bigint])",
        event,
        end=end,
    )
    assert waits == (2 if end == "commit" else 1)
    assert db.main.deliver() == []
    assert end == "rollback" or db.main.drain("d") == []
    db.main.one("select pgq.register_consumer_at('q', 'e', 1)")
    assert db.main.drain("e") == []


def test_consumers_go_on_while_a_cancellation_waits_for_a_slow_one(db: Database) -> None:
    db.queue(consumers=("c", "d", "e"))
    db.main.run("set lock_timeout = '5s'")
    db.main.tick_after("a")
    event = db.main.insert("b")
    slow, slower, other = db.open(), db.open(), db.open()
    for session, consumer in ((slow, "d"), (slower, "e")):
        session.begin()
        session.next(consumer)
    waits = other.later("select count(*) from pgq.cancel_event('q', array[%s::bigint])", event)
    assert wait_until_blocked(db.main.connection, other.pid) == [slow.pid]
    assert db.main.drain() == ["a"]
    slow.commit()
    eventually(lambda: db.main.one("select %s = any (pg_blocking_pids(%s))", slower.pid, other.pid))
    db.main.tick()
    batch = db.main.next()
    assert db.main.data(batch) == ["b"]
    assert db.main.finish(batch) == 1
    slower.commit()
    assert waits.result(timeout=30) == 3
    assert [db.main.drain(name) for name in "de"] == [["a"], ["a"]]


def test_cancellation_does_not_wait_for_ever(db: Database) -> None:
    """The transaction that it waits for may wait for it, over another connection."""
    db.queue()
    event = db.main.insert("a")
    source = db.main.one("select pg_get_functiondef('pgq.lock_consumers(int, int)'::regprocedure)")
    db.main.run(source.replace("'10s'", "'50ms'"))
    handler = db.open()
    handler.begin()
    handler.one("select sub_id from pgq.registration for update")
    with refused("55P03"):
        states(db.main, event)
    assert db.main.one("select current_setting('lock_timeout')") == "0"
    handler.commit()
    assert states(db.main, event) == ["cancelled"]


@ENDS
def test_cancellation_that_waited_for_a_rotation_knows_what_is_left(db: Database, end: str) -> None:
    db.queue()
    ids = []
    for table in (1, 2, None):
        ids.append(db.main.insert("a"))
        assert db.main.deliver() == ["a"]
        assert table is None or db.main.rotate() == table
    rotation = "select pgq.maint_rotate_tables_step1('q')"
    found = db.behind(rotation, STATES, [ids[1]], end=end)
    assert found == ["unknown" if end == "commit" else "delivered"]
