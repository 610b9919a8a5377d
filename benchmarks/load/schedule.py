"""The times at which a producer inserts: absolute, so that one late insert delays no other."""

from __future__ import annotations

import time
from typing import NamedTuple


class Schedule(NamedTuple):
    """One producer's part of a rate; times are nanoseconds of CLOCK_MONOTONIC.

    Attributes:
        start: when the first event of all producers is due.
        stop: no event is due then or later.
        rate: events a second of all producers together.
        number: this producer's, from 0.
        producers: how many there are.
    """

    start: int
    stop: int
    rate: float
    number: int = 0
    producers: int = 1

    @property
    def total(self) -> int:
        """How many events all producers insert."""
        return round(self.rate * (self.stop - self.start) / 1e9)

    @property
    def numbers(self) -> range:
        """The numbers of this producer's events; all producers' together are 0 … total - 1."""
        return range(self.number, self.total, self.producers)

    def due(self, event: int) -> int:
        """Return when the event of this number is due."""
        return self.start + int(event * 1e9 / self.rate)


def wait_until(due: int) -> None:
    """Sleep until a time in nanoseconds of CLOCK_MONOTONIC; return at once if it has passed."""
    while (wait := due - time.monotonic_ns()) > 0:
        time.sleep(wait / 1e9)
