"""A worker of a shared consumer, a process of one with lanes, or a plain or parking consumer."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import psycopg

from benchmarks.load.arrivals import answer
from pgqpy.consumers import Consumer

if TYPE_CHECKING:
    import pgqpy


class Worker(Consumer):
    """Adds up the numbers of its events, and waits for each as for another system."""

    queue = "bench"
    min_count = 1  # a batch for each tick
    count = total = first = last = statements = 0
    wait = 0.0  # seconds

    def process_event(self, event: pgqpy.Event) -> None:
        """Note the event, then wait; fail at those of the key `fails`."""
        if event.extra1 == "fails":
            raise ValueError
        self.first = self.first or time.monotonic_ns()
        self.count += 1
        self.total += int(event.data or 0)
        if self.wait:
            self.last = time.monotonic_ns()
            time.sleep(self.wait)
        self.last = time.monotonic_ns()

    def found(self) -> list[int]:
        """Return the number of events, their sum, and when the first and last one came (ns)."""
        return [self.count, self.total, self.first, self.last]


def main(dsn: str, name: str, mode: str, wait: str) -> None:
    """Run until the process is terminated."""
    lanes = int(mode) if mode.isdigit() else None
    worker = Worker(dsn, name=name, shared=mode == "shared", lanes=lanes, key="extra1")
    if mode == "park":
        worker.on_error, worker.backoff = "park", (3600.0, 3600.0)
    worker.wait = float(wait)
    execute = psycopg.Cursor.execute

    def counting(self: Any, *args: Any, **kwargs: Any) -> Any:
        worker.statements += 1
        return execute(self, *args, **kwargs)

    psycopg.Cursor.execute = counting  # type: ignore[method-assign]  # a worker sends all by it
    answer({"found": worker.found, "statements": lambda: worker.statements})
    worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
