"""A failover that a pooler hides: the server has the open batch, and lacks what came after it."""

from __future__ import annotations

import threading

import pytest

from tests.consumers.harness import CONSUMER, QUEUE, patched
from tests.consumers.workers import taken
from tests.support.waiting import eventually

EVENTS = [str(number) for number in range(1, 61)]
KEYED = [*EVENTS[1:9], EVENTS[24]]  # the last one comes after the failover
OPEN = "create table was_open as select * from pgq.position"
LAGGED = """
    lock table pgq.position in access exclusive mode;
    delete from pgq.position p
     where not exists (
        select from was_open w where w.pos_sub = p.pos_sub and w.pos_no = p.pos_no);
    delete from pgq.retry_queue;
    delete from pgq.parked;
    delete from pgq.dead_event;
"""
DIED = "select pgq.take_part(%s, %s, null, 'dead', '1 hour')"
SHARED = {"shared": True, "lease": 3600}
PARKING = {"lanes": 1, "key": "extra1", "on_error": "park", "lease": 3600}


class Failover:
    """A handler that lets events fail once, and the server lose its last commits once."""

    def __init__(self, connect, failing):
        """Take the events that fail, and connect beside the consumer."""
        self.connection = connect()
        self.failing = failing
        self.done = []
        self.failed = set()
        self.is_open = threading.Event()
        self.over = False

    def work(self, data):
        """Handle an event."""
        if data == EVENTS[0] and not self.is_open.is_set():
            self.connection.execute(OPEN)
            self.is_open.set()
        assert self.is_open.wait(30)  # no part is finished before
        if data in self.failing and data not in self.failed:
            self.failed.add(data)
            raise ValueError(data)
        if data == EVENTS[14] and not self.over:
            self.over = True
            self.connection.execute(LAGGED)
        self.done.append(data)


@pytest.mark.parametrize(
    "chosen",
    [
        SHARED | {"part_size": 10},
        SHARED | {"part_size": 3},  # failures are written before the batch ends
        SHARED | {"part_size": 3, "concurrency": 2},
        PARKING | {"part_size": 10},
        PARKING | {"part_size": 5},  # asks for parked keys in between
        PARKING | {"part_size": 3, "concurrency": 2},
    ],
    ids=["parts", "failures", "beside", "parked", "lists", "parked beside"],
)
def test_failures_that_a_failover_lost_are_delivered_again(queue, make, connect, log, chosen):
    failing = KEYED[:1] if "key" in chosen else KEYED[:8]  # the others of the key wait behind it
    failover = Failover(connect, failing)
    make.start(lambda event: failover.work(event.data), **chosen)
    insert(queue)
    eventually(lambda: failover.over)
    queue.wait_until_finished()
    eventually(lambda: not taken(failover.connection))
    assert set(failover.done) == set(EVENTS)
    if "key" in chosen:
        assert [data for data in dict.fromkeys(failover.done) if data in KEYED] == KEYED
    assert "is not ours any more" in log.text


@pytest.mark.parametrize("chosen", [SHARED, SHARED | {"part_size": 7}], ids=["whole", "parts"])
def test_worker_that_makes_its_parts_larger_keeps_its_batch(queue, make, connection, log, chosen):
    insert(queue)
    connection.execute(DIED, [QUEUE, CONSUMER])
    connection.execute(
        "update pgq.position set pos_part = 1, pos_until = now() - interval '1 hour'"
    )
    done = []
    with patched("careful.QUIET_PARTS", 2):
        make.start(lambda event: done.append(event.data), **chosen)
        eventually(lambda: len(done) >= len(EVENTS) and not taken(connection))
    assert done == EVENTS
    assert "no crash since" in log.text
    assert "is not ours any more" not in log.text


@pytest.mark.parametrize("part_size", [3, 10])
def test_failures_of_process_batch_are_delivered_again_too(
    queue, make_sync, connect, log, part_size
):
    failover = Failover(connect, ())

    def handle(batch, event):
        if event.data in KEYED[:8] and event.data not in failover.failed:
            failover.failed.add(event.data)
            if event.id % 2:
                batch.retry(event, 3600)
            else:
                batch.dead(event, "given up")
            return
        failover.work(event.data)

    def process_batch(_self, batch):
        for event in batch:
            handle(batch, event)

    make_sync.start(process_batch=process_batch, **SHARED | {"part_size": part_size})
    insert(queue)
    eventually(lambda: failover.over)
    queue.wait_until_finished()
    eventually(lambda: not taken(failover.connection))
    assert set(failover.done) == set(EVENTS)
    assert "is not ours any more" in log.text


def insert(queue):
    """Insert the events as one batch; some have the same key."""
    for data in EVENTS:
        key = "one key" if data in KEYED else data
        queue.client.insert_event(QUEUE, "test", data, extra1=key)
    queue.tick()
