"""The daemon moves delayed events when they are due, and retried ones too."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import psycopg
import pytest

import pgqpy
from pgqpy.records import DelayedMoves
from pgqpy.ticker.duties import FULL
from pgqpy.ticker.loop import Mover
from pgqpy.ticker.session import Timing
from tests.support.waiting import eventually
from tests.ticker.harness import database_of, delivered

SLOW = {"retry_period": 600.0}  # seconds: nothing is found because of the period
WAITING = "select count(*) from pgq.delayed_event"


def test_event_comes_when_it_is_due_without_a_look_in_between(start, dsn, client, queue):
    daemon = start(dsn, **SLOW)
    daemon.wait_for("active")
    client.insert_event(queue, "t", "far", delay=3600)
    client.insert_event(queue, "t", "near", delay=0.3)
    assert eventually(lambda: delivered(client)) == ["near"]


def test_event_that_is_committed_after_its_time_comes_at_once(start, dsn, client, queue, connect):
    daemon = start(dsn, **SLOW)
    daemon.wait_for("active")
    app = connect(autocommit=False)
    app.execute("select pgq.insert_event_at('orders', clock_timestamp() + '0.1 s', 't', 'late')")
    client.insert_event(queue, "t", "wakes the mover", delay=0.2)
    assert eventually(lambda: delivered(client)) == ["wakes the mover"]
    app.commit()
    assert eventually(lambda: delivered(client)) == ["late"]


def test_queue_that_fails_delays_no_other_and_works_again(start, dsn, client, connection, queue):
    client.create_queue("zebra")
    client.register_consumer("zebra", "billing")
    connection.execute("alter table pgq.event_1_0 rename to hidden")
    daemon = start(dsn, retry_period=0.1)
    daemon.wait_for("active")
    for name in (queue, "zebra"):
        client.insert_event(name, "t", name, delay=0.05)
    eventually(lambda: client.next_batch("zebra", "billing"))
    daemon.wait_for("queue failing", duty="delayed", queue=queue)
    connection.execute("alter table pgq.hidden rename to event_1_0")
    assert eventually(lambda: delivered(client)) == [queue]


def test_tick_without_a_new_delayed_event_is_no_news(dsn, client, queue, sessions):
    mover = Mover(database_of(dsn, sessions))
    assert mover._has_news()  # there was no move yet
    mover.duty()
    client.insert_event(queue, "t", "due now")
    assert not mover._has_news()
    client.insert_event(queue, "t", "news", delay=3600)
    assert mover._has_news()
    mover.duty()
    assert not mover._has_news()
    sessions.break_off()
    assert mover._has_news()  # the next round finds out why


def test_rounds_of_a_long_period_have_one_session(dsn, client, queue, sessions):
    mover = Mover(database_of(dsn, sessions, retry_period=600))
    pids = set()
    for _ in range(2):
        mover.duty()
        assert not mover._has_news()
        assert mover._statements is not None
        pids.add(mover._statements.connection.info.backend_pid)
    assert len(pids) == 1


def test_round_ends_while_events_come_due_all_the_time(dsn, client, queue, monkeypatch, sessions):
    mover = Mover(database_of(dsn, sessions))
    calls = []

    def always_some(left_out):
        calls.append(left_out)
        return DelayedMoves(1999, timedelta(microseconds=-1), None)

    answer(monkeypatch, move_delayed_events=always_some, maint_retry_events=lambda: 9999)
    mover.duty()
    assert len(calls) == 1


def test_many_retried_events_hold_up_no_delayed_one(dsn, client, queue, monkeypatch, sessions):
    mover = Mover(database_of(dsn, sessions))
    calls = []

    def many_more():
        calls.append("retry")
        if len(calls) == 5:
            mover._database.stopping.set()
        return FULL

    answer(monkeypatch, move_delayed_events=none_delayed(calls), maint_retry_events=many_more)
    mover.duty()
    assert calls == ["retry", "delayed"] * 3


def test_retry_that_fails_holds_up_no_delayed_event(dsn, client, queue, monkeypatch, sessions):
    mover = Mover(database_of(dsn, sessions))
    calls = []

    def failing():
        calls.append("retry")
        raise psycopg.errors.QueryCanceled

    answer(monkeypatch, move_delayed_events=none_delayed(calls), maint_retry_events=failing)
    mover.duty()
    assert calls == ["retry", "delayed"]
    mover.duty()
    assert calls[2:] == ["delayed"]
    assert mover._database.health.failed_runs == {"retry": 2}


def answer(monkeypatch, **functions):
    """Have these functions answer calls by their names, given the parameters."""
    send = pgqpy.Client.call

    def answered(self, call):
        function = functions.get(call.function)
        return function(*call.params) if function else send(self, call)

    monkeypatch.setattr(pgqpy.Client, "call", answered)


def none_delayed(calls):
    """Return a move of delayed events that finds none, and notes that it was called."""

    def move(_left_out):
        calls.append("delayed")
        return DelayedMoves(0, None, None)

    return move


def test_a_round_moves_what_is_due_in_many_queues(dsn, client, sessions):
    due = datetime.now(timezone.utc) + timedelta(seconds=1)
    with client.transaction():
        for name in (f"tenant_{number}" for number in range(45)):  # a call moves those of 20
            client.create_queue(name)
            client.insert_event(name, "t", "d", deliver_at=due)
    mover = Mover(database_of(dsn, sessions))
    assert eventually(lambda: client.connection.execute("select now() > %s", [due]).fetchone()[0])
    mover.duty()
    assert client.connection.execute(WAITING).fetchone() == (0,)


def test_loop_is_told_when_the_next_event_is_due(dsn, client, queue, sessions):
    mover = Mover(database_of(dsn, sessions))
    timing = mover._timing
    mover.duty()
    assert timing.due_at == float("inf")
    client.insert_event(queue, "t", "a", delay=0.05)
    mover.duty()
    due_at = timing.due_at
    assert timing.quiet(last_tick=0.0, now=due_at - 1.0) == due_at - 1.0
    assert timing.quiet(last_tick=0.0, now=due_at + 1.0) == pytest.approx(1.0)

    def moved():
        mover.duty()
        return timing.moved_at > 0

    eventually(moved)
    assert timing.quiet(last_tick=0.0, now=timing.moved_at) == 0.0


def test_loop_that_knows_nothing_counts_from_its_last_tick():
    assert Timing().quiet(last_tick=3.0, now=5.0) == 2.0
