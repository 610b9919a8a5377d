"""Workers of a shared consumer as processes that are killed or stopped."""

from __future__ import annotations

import signal

import pytest

from tests.consumers.harness import CONSUMER, NOTE, QUEUE, private
from tests.consumers.workers import AGE, ENDED, runs, taken, workers
from tests.support.waiting import eventually

WORKER = """
import sys
import psycopg
from pgqpy.consumers import Consumer

class Worker(Consumer):
    queue, name, shared, is_transactional = {queue!r}, {name!r}, True, {transactional}
    lease = {lease!r}

    def process_event(self, event, connection=None):
        other = psycopg.connect(sys.argv[1], autocommit=True)
        (connection or other).execute({note!r}, [event.data])
        other.execute({wait!r})

Worker(sys.argv[1]).run()
print("run() has returned", flush=True)
"""


@pytest.fixture
def victim(spawn, dsn, queue, gate, connection):
    """Start a process that is in the middle of its batch."""

    def starter(*, transactional, lease=None):
        names = {"queue": QUEUE, "name": CONSUMER, "transactional": transactional, "lease": lease}
        code = WORKER.format(note=NOTE, wait=gate.wait_sql, **names)
        process = spawn("-c", code, dsn)
        queue.insert("a")
        gate.wait_for_arrival()
        return process

    return starter


@pytest.mark.parametrize("transactional", [False, True])
def test_another_worker_takes_the_batch_of_a_killed_one(
    make_sync, effects, connection, victim, transactional
):
    process = victim(transactional=transactional)

    def note(event):
        yield NOTE, [event.data]

    idle = make_sync.start(note, shared=True, transactional=True)
    eventually(lambda: runs(idle))
    assert len(taken(connection)) == 1
    process.kill()
    eventually(lambda: not taken(connection))
    assert effects() == (["a"] if transactional else ["a", "a"])
    again = make_sync.start(note, shared=True, transactional=True)
    eventually(lambda: runs(again))
    assert len(workers(connection)) == 2


@pytest.mark.parametrize("transactional", [False, True])
def test_a_process_that_was_stopped_for_too_long_changes_nothing(
    queue, make_sync, effects, connection, victim, gate, transactional
):
    process = victim(transactional=transactional)
    process.signal(signal.SIGSTOP)
    connection.execute(AGE)

    def note(event):
        yield NOTE, [event.data]

    make_sync.start(note, shared=True, transactional=True)
    handled = ["a"] if transactional else ["a", "a"]
    eventually(lambda: effects() == handled and not taken(connection))
    gate.open()
    process.signal(signal.SIGCONT)
    process.wait_for_output("is not ours any more")
    queue.insert("b")
    eventually(lambda: "b" in effects() and not taken(connection))
    assert process.terminate() == 0
    assert effects() == [*handled, "b"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_the_batch_of_a_process_is_taken_when_its_lease_has_ended(
    make_sync, effects, connection, victim, gate, number
):
    process = victim(transactional=True, lease=3600)

    def note(event):
        yield NOTE, [event.data]

    settings = {"shared": True, "transactional": True, "lease": 60}
    idle = make_sync.start(note, **settings)
    eventually(lambda: private(idle.consumer, "worked"))
    (batch,) = taken(connection)
    process.signal(number)
    connection.execute(ENDED)
    eventually(lambda: effects() == ["a"] and not taken(connection))
    if number == signal.SIGSTOP:
        gate.open()
        process.signal(signal.SIGCONT)
        process.wait_for_output(f"batch {batch} of queue {QUEUE}")
        assert process.terminate() == 0
        assert effects() == ["a"]
