"""Histograms of handlers: how long their calls took, and how old their events were. No I/O."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from contextlib import contextmanager
from itertools import accumulate
from threading import Lock
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pgqpy.records import Event


class Histogram:
    """Counts values by upper bounds. Each value is kept as a count only.

    prometheus_client's own histogram takes one value a call. A batch of a million events would
    hold up its consumer for a second.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        """Take the upper bounds in ascending order; values beyond the last one count too."""
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0
        self._lock = Lock()

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value, `times` times."""
        place = bisect_left(self._bounds, value)
        with self._lock:
            self._counts[place] += times
            self._sum += value * times

    def add(self, other: Histogram) -> None:
        """Add what another histogram with the same bounds has counted."""
        with other._lock:
            counts, total = list(other._counts), other._sum
        with self._lock:
            self._counts = [own + more for own, more in zip(self._counts, counts, strict=True)]
            self._sum += total

    def buckets(self) -> tuple[list[tuple[str, float]], float]:
        """Return the cumulative counts by upper bound, and the sum, as Prometheus wants them."""
        with self._lock:
            counts, total = list(self._counts), self._sum
        names = [*(f"{float(bound)}" for bound in self._bounds), "+Inf"]
        return list(zip(names, accumulate(counts), strict=True)), total


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

    @contextmanager
    def batch_call(self, batch: ReadBatch) -> Iterator[None]:
        """Measure the call of process_batch in the block."""
        batch.inserted = InsertTimes()
        began = time.perf_counter()
        try:
            yield
        finally:
            self.calls.observe(time.perf_counter() - began)
        if not batch.unread:
            batch.inserted.done(self.ages)

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
