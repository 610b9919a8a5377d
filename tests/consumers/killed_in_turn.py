"""Run a consumer over two queues, and die of an urgent event while the other one waits.

    python -m tests.consumers.killed_in_turn DSN

The handler of an event of the later queue inserts the event that kills, and goes on when the urgent
queue waits for its turn.
"""

from __future__ import annotations

import os
import signal
import sys

import pgqpy
from pgqpy.consumers import Consumer
from tests.consumers.harness import CONSUMER, QUEUE, private
from tests.support.waiting import eventually

URGENT = "urgent"


class Killed(Consumer):
    """Dies of an urgent event."""

    queues = (URGENT, QUEUE)
    name = CONSUMER

    def process_event(self, event):
        """Let an urgent event come in the middle of a part, or die of it."""
        if self.queue == URGENT:
            os.kill(os.getpid(), signal.SIGKILL)
        if event.data == "010":
            with pgqpy.connect(sys.argv[1]) as client:
                client.insert_event(URGENT, "killer", "killer")
                client.tick_queue(URGENT)
            places = private(self, "sources").turns._places
            eventually(lambda: places[0].waiting)


Killed(sys.argv[1]).run()
