"""Producers whose transactions overlap: `python harness_producer.py DSN LOG SEED`.

Each thread is a producer as in tests/guarantees/workload.py, with a log of its own (LOG.0, …). All
but the first keep their transactions open for a while: across ticks, and across rotations. They go
on until killed, or until nobody is there any more to kill them.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time

from tests.guarantees.sessions import Session
from tests.guarantees.workload import Log, Producer

THREADS = 4
LONGEST = 1.5  # seconds, before what it writes and after it; the queue rotates every two
MOST = 12  # events in a transaction
BETWEEN = 0.02  # seconds between two transactions; Spark needs the cores


class Overlapping(Producer):
    """Transactions that are open at the same time as those of the other threads."""

    def __init__(self, dsn: str, log: Log, thread: int, seed: int) -> None:
        super().__init__(dsn, log)
        self.choose = random.Random(seed + thread)
        self.patience = LONGEST if thread else 0
        self.key = f"{os.getpid()}.{thread}"
        self.parent = os.getppid()

    def run(self) -> None:
        """Go on until killed."""
        while os.getppid() == self.parent:
            self._transaction(
                keep=[self._name() for _ in range(self.choose.randint(1, MOST))],
                drop=[self._name() for _ in range(self.choose.choice((0, 0, 1, 3)))],
                commit=self.choose.random() < 0.85,
            )
            time.sleep(BETWEEN)

    def _name(self) -> str:
        self.number += 1
        return f"{self.key}:{self.number}"

    def _write(self, session: Session, keep: list[str], drop: list[str]) -> None:
        # Not for ever, as in the base: the table could never be truncated, Spark is seconds behind.
        self.table = session.current_table()
        self._pause()
        super()._write(session, keep, drop)
        self._pause()

    def _pause(self) -> None:
        time.sleep(self.choose.uniform(0, self.patience))


def main(dsn: str, path: str, seed: str) -> None:
    """Run the producers."""
    for thread in range(THREADS):
        producer = Overlapping(dsn, Log(f"{path}.{thread}"), thread, int(seed))
        threading.Thread(target=producer.run).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
