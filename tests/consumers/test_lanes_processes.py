"""Lanes of processes that are killed or stopped: another process goes on with them, in order."""

from __future__ import annotations

import signal

import pytest

from pgqpy import calls
from tests.consumers.harness import CONSUMER, NOTE, QUEUE
from tests.consumers.lanes import LANES, in_order, insert, lanes
from tests.consumers.workers import AGE, ENDED, taken
from tests.support.waiting import eventually

PROCESS = """
import logging, sys
import psycopg
from pgqpy.consumers import Consumer

logging.basicConfig(level=logging.INFO)

class Laned(Consumer):
    queue, name, is_transactional, lease = {queue!r}, {name!r}, {transactional}, {lease!r}
    lanes, key = {lanes}, "extra1"

    def process_event(self, event, connection=None):
        other = psycopg.connect(sys.argv[1], autocommit=True)
        other.execute({wait!r})
        (connection or other).execute({note!r}, [event.data])
        other.close()

Laned(sys.argv[1]).run()
print("run() has returned", flush=True)
"""
ONE = {**LANES, "lanes": 1}


@pytest.fixture
def process(spawn, dsn, queue, gate, effects):
    """Start a process whose handlers wait at the gate."""

    def starter(*, transactional=False, lease=None, count=1):
        names = {"queue": QUEUE, "name": CONSUMER, "transactional": transactional, "lease": lease}
        code = PROCESS.format(note=NOTE, wait=gate.wait_sql, lanes=count, **names)
        return spawn("-c", code, dsn)

    return starter


def note(event):
    """Note the event in the transaction of the batch."""
    yield NOTE, [event.data]


@pytest.mark.parametrize("transactional", [False, True])
def test_the_lane_of_a_killed_process_goes_on_at_another_one(
    process, make_sync, queue, gate, effects, connection, log, transactional
):
    victim = process(transactional=transactional)
    datas = insert(queue, [1], ["a", "b"])
    gate.wait_for_arrival()
    make_sync.start(note, **ONE, transactional=True, dead_interval=3600)
    datas += insert(queue, [2], ["a", "b"])
    victim.kill()
    eventually(lambda: effects() == datas)
    assert "crashed" in log.text


def test_processes_that_are_killed_again_and_again_keep_the_order(
    process, queue, gate, effects, connection
):
    """Every process that works is killed in the middle, and another one goes on."""
    keys = ["a", "b", "c", "d"]
    running = [process(transactional=True, count=2) for _ in range(3)]
    datas = insert(queue, range(3), keys)
    for victim in list(running):
        gate.wait_for_arrival()
        victim.kill()
        running.remove(victim)
        running.append(process(transactional=True, count=2))
    datas += insert(queue, range(3, 5), keys)
    gate.open()
    eventually(lambda: sorted(effects()) == sorted(datas))
    assert in_order(effects())
    for each in running:  # one that still starts would die of the signal
        each.wait_for_output("INFO:pgqpy.consumers")
    assert [each.terminate() for each in running] == [0, 0, 0]


def test_sigterm_gives_the_lane_free_at_once(process, make_sync, queue, gate, effects, log):
    victim = process()
    datas = insert(queue, [1], ["a", "b"])
    gate.wait_for_arrival()
    victim.signal(signal.SIGTERM)
    victim.wait_for_output("finishing event")
    gate.open()
    assert victim.wait() == 0
    assert effects() == datas[:1]
    make_sync.start(note, **ONE, transactional=True, dead_interval=3600)
    eventually(lambda: effects() == datas, 10)
    assert "crash" not in log.text


@pytest.mark.parametrize("lease", [None, 3600])
@pytest.mark.parametrize("transactional", [False, True])
def test_a_process_that_was_stopped_for_too_long_changes_nothing_in_the_database(
    process, make_sync, queue, gate, effects, connection, transactional, lease
):
    victim = process(transactional=transactional, lease=lease)
    datas = insert(queue, [1], ["a"])
    gate.wait_for_arrival()
    (lost,) = taken(connection)
    victim.signal(signal.SIGSTOP)
    connection.execute(ENDED if lease else AGE)
    make_sync.start(note, **ONE, transactional=True, lease=lease and 3600)
    eventually(lambda: effects() == datas and not taken(connection))
    gate.open()
    victim.signal(signal.SIGCONT)
    victim.wait_for_output(f"batch {lost} of queue {QUEUE}, consumer {CONSUMER}.extra1-1-of-1")
    datas += insert(queue, [2], ["a"])
    eventually(lambda: datas[-1] in effects() and not taken(connection))
    assert victim.terminate() == 0
    # Nothing can prevent what a handler does outside the batch's transaction.
    assert effects() == datas if transactional else effects() == [*datas[:1], *datas]


def test_a_process_killed_while_the_number_changes_does_not_hold_it_up(
    process, make_sync, queue, gate, effects, connection, client
):
    victim = process(transactional=True, count=2)
    datas = insert(queue, range(3), ["a", "b", "c", "d"])
    gate.wait_for_arrival()
    client.call(calls.lanes.set_lanes(QUEUE, CONSUMER, 3, "extra1"))
    datas += insert(queue, range(3, 5), ["a", "b", "c", "d"])
    make_sync.start(note, **LANES, transactional=True)
    victim.kill()
    eventually(lambda: sorted(effects()) == sorted(datas))
    assert in_order(effects())
    assert len(lanes(connection)) == 3
