"""Locks of other sessions: a consumer waits for them audibly, its handlers as long as they like."""

from __future__ import annotations

import pytest
from psycopg.pq import TransactionStatus

from pgqpy.consumers import session_watch
from tests.consumers.harness import NOTE, STATEMENTS
from tests.support.waiting import eventually


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Wait for locks for a moment only."""
    for kind in ("async", "sync"):
        monkeypatch.setattr(f"pgqpy.consumers._{kind}.consumer.LOCK_TIMEOUT", "50ms")


@pytest.mark.parametrize(
    ("settings", "started"),
    [({}, False), ({}, True), ({"transactional": True}, True)],
)
def test_a_lock_of_another_session_is_told_and_does_not_keep_it_from_stopping(
    queue, make, connect, log, settings, started
):
    seen = []

    def handler(event):
        seen.append(event.data)
        return STATEMENTS

    keeper = connect()
    if started:
        running = make.start(handler, **settings)
        queue.insert("a")
        eventually(lambda: seen == ["a"])
        queue.wait_until_finished()
    keeper.execute("begin")
    keeper.execute("select from pgq.registration for update")
    if not started:
        running = make.start(handler, **settings)
    queue.insert("b")
    eventually(lambda: log.text.count("waits for a lock of another session") > 2)
    assert "lock timeout" in str(running.consumer.outage())
    keeper.execute("rollback")
    eventually(lambda: seen[-1:] == ["b"] and running.consumer.outage() is None)
    keeper.execute("begin")
    keeper.execute("select from pgq.registration for update")
    queue.insert("c")
    eventually(running.consumer.outage)
    running.stop()


@pytest.mark.parametrize("settings", [{}, {"transactional": True}])
def test_a_lock_that_keeps_a_consumer_from_reading_its_batch_is_an_outage(
    queue, make, connect, log, monkeypatch, settings
):
    monkeypatch.setattr(session_watch, "SLOW_READ", 0.1)
    seen = []

    def note(event):
        seen.append(event.data)
        return ()  # statements

    outage = make.start(note, **settings).consumer.outage
    queue.deliver("a")
    assert outage() is None
    keeper = connect()
    keeper.execute("begin")
    ((table,),) = keeper.execute("select queue_data_pfx from pgq.queue")
    keeper.execute(f"lock table only {table}")
    queue.insert("b")
    eventually(outage)
    found = []  # while it connects, waits and connects again

    def told_often():
        found.append(outage())
        return log.text.count("waits for a lock") > 3

    eventually(told_often)
    assert None not in found
    keeper.execute("rollback")
    eventually(lambda: seen == ["a", "b"] and outage() is None)


@pytest.mark.parametrize("settings", [{"part_size": 1}, {}])
def test_a_transactional_consumer_does_not_wait_for_a_lock_with_its_handlers_work_for_ever(
    queue, make, connect, effects, log, settings
):
    keeper = connect()

    def handler(event):
        if keeper.info.transaction_status == TransactionStatus.IDLE:
            keeper.execute("begin")
            keeper.execute("select from pgq.registration for update")
        yield NOTE, [event.data]

    running = make.start(handler, transactional=True, **settings)
    queue.insert("a")
    eventually(lambda: log.text.count("waits for a lock of another session") > 2)
    assert running.consumer.outage() is not None
    running.stop()
    keeper.execute("rollback")
    assert effects() == []


@pytest.mark.parametrize("settings", [{}, {"part_size": 1}])
def test_transactional_handlers_wait_for_locks_as_long_as_they_like(
    queue, make, effects, connection, settings
):
    shown = "insert into effect (data) select current_setting('lock_timeout')"

    def handler(event):
        yield shown, None

    make.start(handler, transactional=True, **settings)
    queue.insert("a", "b")
    eventually(lambda: len(effects()) == 2)
    queue.insert("c")
    eventually(lambda: effects() == ["0"] * 3)
