"""A consumer with a no-op handler that reads a backlog to its end (a process of its own)."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.load.walk import peak
from pgqpy.consumers import Consumer

if TYPE_CHECKING:
    import pgqpy


class Drained(NamedTuple):
    """The events that a consumer read, and the time from the first to the last."""

    events: int
    ids: int  # their sum
    seconds: float
    peak: float  # MB
    ended: float  # seconds since 1970


class Draining(Consumer):
    """Stops after `wanted` events."""

    wanted = 0
    events = ids = 0
    start = 0.0

    def process_event(self, event: pgqpy.Event) -> None:
        """Count it."""
        if not self.events:
            self.start = time.monotonic()
        self.events += 1
        self.ids += event.id
        if self.events == self.wanted:
            self.stop()


def drain(dsn: str, queue: str, name: str, wanted: int) -> Drained:
    """Consume `wanted` events."""
    consumer = Draining(dsn, queue=queue, name=name)
    consumer.wanted = wanted
    consumer.run()
    seconds = time.monotonic() - consumer.start
    return Drained(consumer.events, consumer.ids, seconds, peak(), time.time())


if __name__ == "__main__":
    dsn, queue, name, wanted = sys.argv[1:]
    json.dump(drain(dsn, queue, name, int(wanted)), sys.stdout)
