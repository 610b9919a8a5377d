"""Shared consumers: claims and leases that are lost, and events that wait in the process."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pgqpy.consumers.holders import Holders
from pgqpy.consumers.in_hand import SOON
from pgqpy.consumers.waiting import Wakeup
from tests.consumers.harness import END, QUEUE, SESSIONS, patched, private
from tests.consumers.play import Play
from tests.consumers.sharing import (
    CLAIMED,
    END_LEASES,
    LEASE_ENDS,
    NAME,
    insert,
    is_done,
    one,
    start,
)
from tests.support.gates import wait_until_blocked
from tests.support.waiting import eventually


def test_claim_that_is_committed_after_its_session_is_returned(queue, make, connection, connect):
    play = Play()
    play.hold("a")
    run = private(start(make, play.handle).consumer, "shared")
    insert(queue, "a")
    play.wait_for("a")
    insert(queue, "b")
    other, number = connect(), run._holders.number(QUEUE)
    claim = "select ev_data from pgq.receive(%s, %s, 1, '1 minute', %s)"
    with other.transaction():
        assert one(other, claim, QUEUE, NAME, number) == "b"
        connection.execute(END)
        eventually(lambda: run._returned_at)  # the first time, in the new session
    play.release("a")
    eventually(lambda: play.ended == ["a", "b"])


@pytest.mark.parametrize("how", ["event", "failure", "list"])
def test_what_was_not_written_is_written_in_the_next_session(
    queue, make_sync, connection, connect, how
):
    seen, play = [], Play()
    play.hold("a")

    def handle(what):
        for event in what if how == "list" else [what]:
            seen.append((event.data, event.retry))
            play.handle(event)
            if how == "list":
                what.dead(event, "why")
            elif how == "failure" and not event.retry:
                raise ValueError

    start(make_sync, handle, lists=how == "list", backoff=(0, 0))
    insert(queue, "a")
    play.wait_for("a")
    other, session = connect(), connection.execute(SESSIONS).fetchone()[0]
    with other.transaction():
        other.execute("lock table pgq.inflight in share mode")
        play.release("a")
        wait_until_blocked(connection, session)
        connection.execute(END)
    is_done(connection)
    assert seen == [("a", None), *([("a", 1)] if how == "failure" else [])]


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("transactional", [False, True])
def test_lease_that_ended_is_logged(queue, make_sync, connection, log, transactional, fails):
    play = Play()
    play.hold("a")

    def handle(event, *_connection):
        play.handle(event)
        if fails:
            raise ValueError

    start(make_sync, handle, transactional=transactional)
    insert(queue, "a")
    play.wait_for("a")
    connection.execute(LEASE_ENDS)
    seen = []
    start(make_sync, lambda event: seen.append(event.data))
    eventually(lambda: seen == ["a"])
    play.release("a")
    eventually(lambda: "the lease of 1 event(s) had ended" in log.text)


@pytest.mark.parametrize("transactional", [False, True])
@patched("shared.STUCK", math.inf)
def test_no_handler_begins_after_the_lease_has_ended(
    queue, make_sync, connection, log, transactional
):
    play = Play()
    play.hold("a")

    def handle(event, *_connection):
        play.handle(event)

    run = private(start(make_sync, handle, transactional=transactional).consumer, "shared")
    run._pace.note(SOON)  # it claims one event ahead
    insert(queue, "a", "b")
    play.wait_for("a")
    eventually(lambda: one(connection, CLAIMED) == 2)
    connection.execute(LEASE_ENDS)
    first = run._holders.number(QUEUE)
    taken: list[Any] = []

    def take() -> bool:
        taken.extend(queue.client.receive(QUEUE, NAME, wait=0))
        return len(taken) == 2

    eventually(take)
    connection.execute(END_LEASES)
    eventually(lambda: run._holders.number(QUEUE) not in {first, None})
    play.release("a")
    eventually(lambda: log.text.count("the lease of 1 event(s) had ended") == 2)
    assert play.begun == ["a"]


def test_lease_that_has_ended_is_held_no_more(queue, dsn):
    queue.client.receive(QUEUE, NAME, wait=0)  # it is registered
    holders = Holders(dsn, NAME, [QUEUE], 30, Wakeup().set, Wakeup())
    holders._hold(QUEUE)
    (number,) = holders.numbers()
    assert holders.number(QUEUE) == number
    assert holders.holds(number)
    other = Holders(dsn, NAME, [QUEUE], 30, Wakeup().set, Wakeup())
    other._hold(QUEUE)
    holders._hold(QUEUE)  # renews
    assert holders.processes == 2
    other._disconnect()
    holders.lost(number)
    assert not holders.holds(number)
    assert holders.number(QUEUE) is None
    holders._disconnect()


def test_holder_that_is_gone_is_taken_anew_at_once(queue, make_sync, connection):
    play = Play()
    play.hold("a")
    start(make_sync, play.handle, lease=3600)
    insert(queue, "a")
    play.wait_for("a")
    connection.execute("delete from pgq.holder")
    insert(queue, "b")
    play.release("a")
    eventually(lambda: "b" in play.ended)


def test_events_of_an_outage_do_not_wait_for_a_poll(queue, make_sync, connection, connect, polls):
    play = Play()
    play.hold("a")
    polls(3600)
    start(make_sync, play.handle, concurrency=2)
    insert(queue, "a")
    play.wait_for("a")
    other = connect()
    with other.transaction():
        other.execute("lock table pgq.installation")  # the new session waits
        connection.execute(END)
        insert(queue, "b")
    eventually(lambda: play.ended == ["b"])
    play.release("a")


def test_events_behind_a_handler_that_takes_long_are_returned(queue, make, connection):
    play = Play()
    play.hold("a")
    with patched("shared.STUCK", math.inf):
        run = private(start(make, play.handle).consumer, "shared")
        run._pace.note(0.001)  # it claims several events
        insert(queue, *"abc")
        play.wait_for("a")
        eventually(lambda: one(connection, CLAIMED) == 3)
    eventually(lambda: one(connection, CLAIMED) == 1)
    assert run._pace.ahead(1) == 0  # it claims them no more
    play.release("a")
    is_done(connection)
    assert sorted(play.ended) == ["a", "b", "c"]


def test_nothing_else_is_claimed_beside_a_suspect(queue, make, connection):
    play, looks = Play(), []
    play.hold("a")
    start(make, print).stop()
    insert(queue, "a")
    assert queue.client.receive(QUEUE, NAME, wait=0)
    connection.execute("update pgq.inflight set run_due = clock_timestamp()")
    run = private(start(make, play.handle, concurrency=2).consumer, "shared")
    play.wait_for("a")
    look = run._next_claim

    def counted():
        looks.append(1)
        return look()

    run._next_claim = counted
    insert(queue, "b")
    before = len(looks)
    eventually(lambda: len(looks) > before + 1)
    assert one(connection, CLAIMED) == 1
    play.release("a")
    eventually(lambda: play.ended == ["a", "b"])


def test_last_queue_is_read_beside_a_full_first_one(queue, make, connection):
    queue.client.create_queue("urgent")
    seen = []
    settings = {"queues": ["urgent", QUEUE], "queue": "urgent", "limit": 1}
    start(make, print, **settings).stop()
    insert(queue, "last")
    for number in range(60):
        queue.client.insert_event("urgent", "test", str(number))
    start(make, lambda event: seen.append(event.data), **settings)
    eventually(lambda: len(seen) == 61)
    assert "last" in seen[:40]


def test_next_event_of_a_key_does_not_wait_for_a_poll(queue, make, connection, polls):
    play = Play()
    play.hold("a-1", "b-1")
    start(make, play.handle, concurrency=3, key="extra1").stop()
    insert(queue, "a-1", "b-1")
    polls(3600)
    start(make, play.handle, concurrency=3, key="extra1")
    play.wait_for("a-1", "b-1")
    insert(queue, "a-2")
    eventually(lambda: one(connection, "select count(*) from pgq.inflight where run_token < 0"))
    play.release("a-1")
    eventually(lambda: "a-2" in play.ended)
    play.release("b-1")


def test_handler_that_always_loses_its_connection_fails(queue, make_sync, connection):
    def handle(_event, connection):
        connection.execute("select pg_terminate_backend(pg_backend_pid())")

    start(make_sync, handle, transactional=True, max_retries=0)
    insert(queue, "a")
    is_done(connection)
    assert one(connection, "select ev_data from pgq.dead_event") == "a"


def test_lock_that_the_end_of_an_event_waits_for_fails_no_event(
    queue, make_sync, connection, connect
):
    play = Play()
    play.hold("a")
    start(make_sync, lambda event, _: play.handle(event), transactional=True, max_retries=0)
    insert(queue, "a")
    play.wait_for("a")
    other = connect()
    with other.transaction():
        other.execute("lock table pgq.inflight in share mode")
        play.release("a")
        eventually(lambda: play.begun == ["a", "a"])  # after the lock timeout
    is_done(connection)
    assert one(connection, "select count(*) from pgq.dead_event") == 0


def test_stop_ends_the_repetition_of_a_transaction(queue, make_sync, connection):
    seen = []

    def handle(event, connection):
        seen.append(event.data)
        connection.execute("do $$ begin raise serialization_failure; end $$")

    running = start(make_sync, handle, transactional=True, stop_timeout=3600)
    insert(queue, "a")
    eventually(lambda: len(seen) > 1)
    running.stop()
    state = connection.execute("select run_token > 0, run_attempts from pgq.inflight")
    assert state.fetchall() == [(False, 0)]
