"""A histogram for Prometheus that takes many equal values at once, from several threads."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


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
