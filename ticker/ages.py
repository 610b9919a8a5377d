"""Ages that are not known, because the clock was ahead when their time was stored."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgqpy.ticker.gauges import Reading

OF_TIMES = "_seconds"  # how the names of metrics of ages end
AHEAD = -60.0  # seconds: doctor too takes what is less for the time of a wrong clock


class UnknownAges:
    """Counts an age from the first reading that finds its time in the future.

    Such a time was stored before the clock was put right, so before that reading: it is older than
    what is counted. A negative age would be below the limit of every alert rule.
    """

    def __init__(self) -> None:
        """Know of none."""
        self._found: dict[tuple[str, tuple[str, ...]], float] = {}  # by time.monotonic()

    def count(self, reading: Reading) -> Reading:
        """Return the reading without negative ages."""
        now, before = time.monotonic(), self._found
        self._found = {
            (metric, labels): before.get((metric, labels), now)
            for metric, values in reading.items()
            if metric.endswith(OF_TIMES)
            for labels, age in values.items()
            if age < AHEAD
        }
        return {
            metric: {
                labels: max(age, now - self._found.get((metric, labels), now))
                for labels, age in values.items()
            }
            if metric.endswith(OF_TIMES)
            else values
            for metric, values in reading.items()
        }
