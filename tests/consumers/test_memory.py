"""A consumer's memory depends on its fetch size, never on the batch (G8)."""

from __future__ import annotations

import pytest

from tests.consumers.harness import CONSUMER, QUEUE

LIMIT = 40 << 20  # octets; each batch is 60 MB

PROGRAM = """
import resource, sys
from pgqpy.consumers import Consumer, TransactionalConsumer

class Counting:
    queue, name, seen, on_error, part_size = {queue!r}, {name!r}, 0, "stop", 1000

    def count(self):
        if self.seen == 0:
            self.before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.seen += 1
        if self.seen == {events}:
            self.stop()

class Events(Counting, Consumer):
    def process_event(self, event):
        self.count()

class Transactional(Counting, TransactionalConsumer):
    def process_event(self, event, connection):
        self.count()

class Batches(Counting, Consumer):
    def process_batch(self, batch):
        for event in batch:
            self.count()

class Failing(Counting, Consumer):
    on_error = "retry"
    def process_event(self, event):
        self.count()
        raise ValueError("all of them")

import logging
logging.disable(logging.CRITICAL)
consumer = globals()[sys.argv[2]](sys.argv[1])
consumer.run()
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print("seen", consumer.seen, "grown", (after - consumer.before) << 10)
"""


@pytest.mark.parametrize(
    ("kind", "events", "size"),
    [
        ("Events", 60_000, 1000),
        ("Transactional", 30_000, 2000),
        ("Batches", 30_000, 2000),
        ("Failing", 12_000, 5000),
    ],
)
def test_a_batch_of_60_megabytes_takes_little_memory(queue, spawn, dsn, kind, events, size):
    queue.fill(events, size=size)
    process = spawn("-c", PROGRAM.format(queue=QUEUE, name=CONSUMER, events=events), dsn, kind)
    assert process.wait(120) == 0, process.output()
    words = process.output().split()
    assert int(words[1]) == events
    assert int(words[3]) < LIMIT
    assert queue.open_batch() is None
