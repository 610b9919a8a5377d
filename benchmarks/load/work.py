"""A process of a shared consumer."""

from __future__ import annotations

import sys
import time
from threading import Lock
from typing import TYPE_CHECKING

from benchmarks.load.arrivals import answer
from pgqpy.consumers import Consumer

if TYPE_CHECKING:
    import pgqpy


class Worker(Consumer):
    """Adds up the numbers of its events, and waits for each as for another system."""

    queue, shared = "bench", True
    wait = 0.0  # seconds
    count = total = first = last = 0
    lock = Lock()

    def process_event(self, event: pgqpy.Event) -> None:
        """Note the event, then wait."""
        began = time.monotonic_ns()
        if self.wait:
            time.sleep(self.wait)
        with self.lock:
            self.first = self.first or began
            self.count += 1
            self.total += int(event.data or 0)
            self.last = time.monotonic_ns()

    def found(self) -> list[int]:
        """Return the number of events, their sum, and when the first and last one came (ns)."""
        return [self.count, self.total, self.first, self.last]


def main(dsn: str, name: str, concurrency: str, wait: str) -> None:
    """Run until the process is terminated."""
    worker = Worker(dsn, name=name, concurrency=int(concurrency))
    worker.wait = float(wait)
    answer({"found": worker.found})
    worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
