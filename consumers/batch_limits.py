"""Limits on the ticks of a batch: the longer a consumer is behind, the more. No I/O.

The ticker ticks every few milliseconds. A batch costs a commit and some round trips, however few
events are in it: a consumer that took the ticks one by one, a little slower than the ticker makes
them, would fall behind for ever, and after an outage never catch up.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgqpy.records import Batch

Limits = tuple[int | None, "timedelta | float | None"]  # min_count, min_interval (seconds)

MAX_INTERVAL = timedelta(days=365)  # a min_interval of more than a century is refused
MAX_RATIO = 100  # events of the queue for each that a filter lets through


class BatchLimits:
    """The min_count and min_interval for next_batch.

    min_interval doubles each time the next batch is available at once; min_count ends a batch that
    would get too large. It counts events of the queue, so it is larger where a filter takes few.
    """

    def __init__(self, *, most: int, own: Limits = (None, None)) -> None:
        """Take the estimated events of a large batch, and the limits that the application set.

        The application's limits are never changed.
        """
        self._most = most
        self._own = own
        self._has_batch = False  # and did not wait since
        self._interval: timedelta | None = None
        self._ratio = 1.0  # events of the queue for each that the filter lets through

    @property
    def current(self) -> Limits:
        """The limits to ask for the next batch with; (None, None) is the next tick."""
        most = round(self._most * self._ratio)
        return self._own if self._interval is None else (most, self._interval)

    def adapt(self, batch: Batch | None) -> bool:
        """Adapt the limits to what next_batch returned; True: ask once more, now without limits.

        None under limits means only that the ticks left do not span the interval.
        """
        if batch is None:
            again = self._interval is not None
            self._has_batch, self._interval = False, None
            return again
        if self._has_batch and self._own == (None, None):
            # A clock that was set back or forward between the ticks makes their distance negative
            # or very large: neither says how many ticks to take.
            interval = 2 * (batch.tick_time - batch.prev_tick_time)
            self._interval = min(interval, MAX_INTERVAL) if interval > timedelta(0) else None
        self._has_batch = True
        return False

    def count(self, batch: Batch, events: int) -> None:
        """Note how many events of a batch came through the consumer's filter."""
        estimated = batch.event_seq - batch.prev_event_seq
        self._ratio = min(max(estimated / max(events, 1), 1.0), MAX_RATIO)
