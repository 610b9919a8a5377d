"""How long handlers take, and how old events are when they are done. No I/O."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from pgqpy.consumers.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pgqpy.records import Event

# Upper bounds in seconds.
CALLS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
AGES = (*CALLS[2:12], 10, 30, 60, 300, 900, 3600, 14400, 86400)
MOST = 1000  # different times of insertion that are counted
FINEST = 0.001  # seconds; the resolution at first


class HandlerTimes:
    """The histograms of one consumer on one queue."""

    def __init__(self) -> None:
        """Count nothing yet."""
        self.calls = Histogram(CALLS)
        self.ages = Histogram(AGES)

    def event_done(self, event: Event) -> None:
        """Note that the handler of an event has returned."""
        self.ages.observe(max(time.time() - event.time.timestamp(), 0.0))

    def add(self, other: HandlerTimes) -> None:
        """Add the counts of another one."""
        self.calls.add(other.calls)
        self.ages.add(other.ages)


class InsertTimes:
    """The times at which the events of one batch were inserted.

    Memory does not grow with the batch (G8): where the events have more than MOST different times,
    their resolution gets coarser.
    """

    def __init__(self) -> None:
        """Begin without an event."""
        self.clear()

    def clear(self) -> None:
        """Forget the events: the batch is read again."""
        self._unit = FINEST
        self._counts: Counter[int] = Counter()

    def add(self, events: Iterable[Event]) -> None:
        """Note these events of the batch."""
        self._counts.update(int(event.time.timestamp() / self._unit) for event in events)
        while len(self._counts) > MOST:
            coarser: Counter[int] = Counter()
            for number, count in self._counts.items():
                coarser[number // 10] += count
            self._counts = coarser
            self._unit *= 10

    def done(self, ages: Histogram) -> None:
        """Count how old the events are now."""
        now = time.time()
        for number, count in self._counts.items():
            ages.observe(max(now - number * self._unit, 0.0), count)


class ReadBatch(Protocol):
    """A batch that process_batch reads."""

    inserted: InsertTimes | None

    @property
    def unread(self) -> bool:
        """Whether the pass that the handler began last stopped before the last event."""


@contextmanager
def timing_batch(times: HandlerTimes | None, batch: ReadBatch) -> Iterator[None]:
    """Measure the call of process_batch in the block, if `times` are wanted."""
    if times is None:
        yield
        return
    batch.inserted = InsertTimes()
    began = time.perf_counter()
    try:
        yield
    finally:
        times.calls.observe(time.perf_counter() - began)
    if not batch.unread:
        batch.inserted.done(times.ages)
