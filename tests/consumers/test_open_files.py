"""A consumer in a process that can open no more files for a while."""

from __future__ import annotations

from tests.consumers.harness import CONSUMER, QUEUE

PROGRAM = """
import resource, sys
from pgqpy.consumers import Consumer

class Process(Consumer):
    queue, name = {queue!r}, {name!r}

    def process_event(self, event):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        most = hard if event.data == "c" else 3  # files that are open stay so
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        print("handled " + event.data, flush=True)

Process(sys.argv[1]).run()
"""


def test_a_consumer_waits_without_opening_a_file(queue, spawn, dsn):
    process = spawn("-c", PROGRAM.format(queue=QUEUE, name=CONSUMER), dsn)
    for data in "abc":
        queue.insert(data)
        process.wait_for_output(f"handled {data}")
        queue.wait_until_finished()
    assert process.terminate() == 0
