"""Children forked from a process whose consumer runs in a loop of asyncio."""

from __future__ import annotations

from tests.consumers.harness import CONSUMER, QUEUE

LOOP = """
import asyncio, os, sys
from pgqpy.consumers import AsyncConsumer

class Process(AsyncConsumer):
    queue, name = {queue!r}, {name!r}

    async def process_event(self, event):
        if event.data == "a" and os.fork() == 0:
            sys.exit("the child ends")
        await asyncio.to_thread(print, "handled " + event.data, flush=True)

asyncio.run(Process(sys.argv[1]).run())
"""


def test_a_forked_child_that_closes_its_loop_leaves_that_of_the_parent(queue, spawn, dsn):
    process = spawn("-c", LOOP.format(queue=QUEUE, name=CONSUMER), dsn)
    queue.insert("a", "b")
    process.wait_for_output("the child ends")
    queue.insert("c")
    for data in "abc":
        process.wait_for_output(f"handled {data}")
    queue.wait_until_finished()
    assert process.terminate() == 0
