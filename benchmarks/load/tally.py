"""A consumer that counts its events, and answers with the count (a process of its own)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from benchmarks.load.arrivals import answer
from pgqpy.consumers import Consumer

if TYPE_CHECKING:
    import pgqpy


class Tally(Consumer):
    """pgqpy's, with its default settings; it answers "count" and "ids", the sum of the ids."""

    events = ids = 0

    def process_event(self, event: pgqpy.Event) -> None:
        """Count it."""
        self.events += 1
        self.ids += event.id


def main(dsn: str, queue: str, name: str) -> None:
    """Run until it is terminated."""
    tally = Tally(dsn, queue=queue, name=name)
    answer({"count": lambda: tally.events, "ids": lambda: tally.ids})
    tally.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
