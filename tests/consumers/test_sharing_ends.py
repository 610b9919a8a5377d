"""Shared consumers whose process stops, dies, hangs or loses its connections."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest

from tests.consumers.harness import END, NOTE, QUEUE, Maker, private
from tests.consumers.play import Play
from tests.consumers.sharing import (
    CLAIMED,
    END_LEASES,
    LEASE_ENDS,
    NAME,
    insert,
    is_done,
    one,
    shared,
    start,
)
from tests.support.waiting import eventually

CRASHES = "select coalesce(max(run_crashes), 0) from pgq.inflight"
ATTEMPTS = "select array_agg(run_attempts order by run_ids) from pgq.inflight"
END_HANDLERS = END_LEASES.replace("leases", "handler")

WORKER = """
import sys
import psycopg
from pgqpy.consumers import {base}

class Letters({base}):
    queue, name, shared, lease = {queue!r}, {name!r}, True, 60

    def process_event(self, event, connection=None):
        other = psycopg.connect(sys.argv[1], autocommit=True)
        (connection or other).execute({note!r}, [event.data])
        other.execute({wait!r})

Letters(sys.argv[1]).run()
print("run() has returned", flush=True)
"""


@pytest.fixture
def victim(spawn, dsn, queue, gate):
    """Start a process that is in the middle of the event `a`."""

    def starter(*, transactional=False):
        base = "TransactionalConsumer" if transactional else "Consumer"
        names = {"queue": QUEUE, "name": NAME, "base": base}
        queue.client.receive(QUEUE, NAME, wait=0)  # it is registered
        process = spawn("-c", WORKER.format(note=NOTE, wait=gate.wait_sql, **names), dsn)
        insert(queue, "a")
        gate.wait_for_arrival()
        return process

    return starter


@pytest.mark.parametrize("transactional", [False, True])
def test_events_of_a_killed_process_are_taken_over(
    queue, make_sync, effects, connection, victim, transactional
):
    process = victim(transactional=transactional)
    seen = []
    start(make_sync, lambda event: seen.append((event.data, event.retry)))
    insert(queue, "b")
    eventually(lambda: seen == [("b", None)])
    process.kill()
    eventually(lambda: ("a", 1) in seen)  # the lease would take a minute
    is_done(connection)
    assert effects() == ([] if transactional else ["a"])


def test_process_that_was_stopped_for_too_long_commits_nothing(
    queue, make_sync, effects, connection, victim, gate
):
    process = victim(transactional=True)
    process.signal(signal.SIGSTOP)
    connection.execute(LEASE_ENDS)

    def note(event, connection):
        connection.execute(NOTE, [event.data])

    start(make_sync, note, transactional=True)
    is_done(connection)
    gate.open()
    process.signal(signal.SIGCONT)
    process.signal(signal.SIGTERM)
    process.wait()
    assert effects() == ["a"]


def test_stop_returns_what_no_handler_has_begun(queue, make, connection):
    play = Play()
    play.hold("k-1")
    running = start(make, play.handle, key="extra1")
    insert(queue, "k-1", "k-2", "k-3")
    play.wait_for("k-1")
    running.consumer.stop()
    eventually(lambda: one(connection, CLAIMED) == 1)
    play.release("k-1")
    running.join()
    assert "k-2" not in play.begun
    assert set(one(connection, ATTEMPTS)) == {0}
    assert one(connection, CLAIMED) == 0


def test_run_ends_if_the_thread_of_its_leases_ends(queue, make, connection, monkeypatch):
    running = start(make, print)
    monkeypatch.setattr("pgqpy.consumers.holders._name", None)  # it fails at the next hold
    connection.execute("delete from pgq.holder")
    holders = private(running.consumer, "shared")._holders
    holders.lost(holders.number(QUEUE))
    with pytest.raises(RuntimeError, match="no thread renews the leases"):
        running.join()


def test_process_that_stops_is_no_holder_any_more(queue, make, connection):
    start(make, print).stop()
    assert one(connection, "select count(*) from pgq.holder") == 0


def test_stop_ends_what_its_handlers_end(queue, make, connection):
    play = Play()
    play.hold("a", "b")
    running = start(make, play.handle, concurrency=2)
    insert(queue, "a", "b")
    play.wait_for("a", "b")
    running.consumer.stop()
    play.release("a", "b")
    running.join()
    assert one(connection, "select count(*) from pgq.inflight") == 0


def test_handler_that_outlives_stop_timeout_gives_its_event_to_others(
    queue, make_sync, connection, log
):
    play = Play()
    play.hold("a")
    running = start(make_sync, play.handle, stop_timeout=0.1)
    insert(queue, "a")
    play.wait_for("a")
    running.stop()
    assert "after stop_timeout" in log.text
    seen = []
    start(make_sync, lambda event: seen.append((event.data, event.retry)))
    eventually(lambda: seen == [("a", None)])
    assert one(connection, CRASHES) == 0
    play.release("a")


def test_cancelled_task_returns_its_events_at_once(queue, dsn, connection):
    make = Maker(dsn, asynchronous=True)

    async def main():
        begun = asyncio.Event()

        async def process_event(_self, _event):
            begun.set()
            await asyncio.Event().wait()

        consumer = shared(make, print)
        type(consumer).process_event = process_event
        task = asyncio.create_task(consumer.run())
        holders = "select count(*) from pgq.holder"
        await asyncio.to_thread(eventually, lambda: one(connection, holders) == 1)
        await asyncio.to_thread(insert, queue, "a")
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert one(connection, CLAIMED) == 0
    assert one(connection, CRASHES) == 0
    assert one(connection, ATTEMPTS) == [0]


@pytest.mark.parametrize("ended", [END, END_LEASES])
def test_lost_session_does_not_interrupt_handlers(queue, make, connection, ended):
    play = Play()
    play.hold("a")
    running = start(make, play.handle)
    insert(queue, "a")
    play.wait_for("a")
    connection.execute(ended)
    insert(queue, "b")
    play.release("a")
    eventually(lambda: "b" in play.ended)
    is_done(connection)
    assert set(play.ended) == {"a", "b"}
    running.stop()


def test_handler_that_blocks_its_loop_keeps_its_lease(queue, make, connection):
    seen = []

    def handle(event):
        seen.append(event.data)
        threading.Event().wait(2.5)  # longer than two leases

    settings = {"lease": 1}
    if make.asynchronous:
        consumer = shared(make, print, **settings)

        async def process_event(_self, event):
            handle(event)

        type(consumer).process_event = process_event
        make.run(consumer)
        eventually(lambda: one(connection, "select count(*) from pgq.holder") == 1)
    else:
        start(make, handle, **settings)
    start(make, handle, **settings)
    insert(queue, "a")
    is_done(connection)
    assert seen == ["a"]


@pytest.mark.parametrize("ended", [END_HANDLERS, END_LEASES])
def test_session_that_is_lost_while_nothing_runs_harms_no_event(
    queue, make, effects, connection, ended
):
    def handle(event, connection):
        result = connection.execute(NOTE, [event.data])
        return result if make.asynchronous else None

    start(make, handle, transactional=True, max_retries=0)
    insert(queue, "a")
    is_done(connection)
    connection.execute(ended)
    insert(queue, "b")
    is_done(connection)
    assert effects() == ["a", "b"]
    assert one(connection, "select count(*) from pgq.dead_event") == 0


SIGKILL = "os.kill(os.getpid(), signal.SIGKILL)"
KILLER = """
import os, signal, sys
from pgqpy.consumers import Consumer

class Letters(Consumer):
    queue, name, shared, concurrency = {queue!r}, {name!r}, True, 3
    key = {key!r}

    def {method}(self, what):
        for event in ([what] if hasattr(what, "data") else what):
            if event.data == "killer-1":
                {end}
            if event.data == "end-1":
                self.stop()

Letters(sys.argv[1]).run()
"""


@pytest.mark.parametrize(
    ("method", "key", "number", "end"),
    [
        ("process_event", None, 10, "sys.exit(1)"),
        ("process_event", "extra1", 300, SIGKILL),
        ("process_batch", None, 300, SIGKILL),
    ],
)
def test_killer_is_found_and_no_innocent_dies(
    queue, spawn, dsn, connection, method, key, number, end
):
    queue.client.receive(QUEUE, NAME, wait=0, key=key)
    insert(queue, *(f"a{each % 7}-1" for each in range(number)), "killer-1")
    code = KILLER.format(queue=QUEUE, name=NAME, key=key, method=method, end=end)
    dead = "select count(*) from pgq.dead_event"
    for _ in range(12):
        process = spawn("-c", code, dsn)

        def ended(process=process):
            return process.popen.poll() is not None or one(connection, dead)

        eventually(ended)
        if one(connection, dead):
            break
    is_done(connection)
    insert(queue, "end-1")
    process.wait()
    dead = "select ev_data, dead_reason from pgq.dead_event"
    assert connection.execute(dead).fetchall() == [
        ("killer-1", "three claims of it alone ended without done")
    ]
