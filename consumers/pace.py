"""How many ticks a batch takes: more of them the longer a consumer is behind. No I/O.

The ticker ticks every few milliseconds. A batch costs a commit and some round trips, however few
events are in it: a consumer that took the ticks one by one, and is a little slower than they
come, would fall behind for ever, and after an outage never catch up.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgqpy.records import Batch

Limits = tuple[int | None, "timedelta | float | None"]  # min_count, min_interval (seconds)

LONGEST_REACH = timedelta(days=365)  # a min_interval of more than a century is refused


class Pace:
    """Doubles the reach of a batch each time there was no need to wait for it.

    It speaks PGQ's own language (next_batch_custom): a reach is a min_interval, and min_count
    ends a batch earlier that would get too large.
    """

    def __init__(self, *, most: int, own: Limits = (None, None)) -> None:
        """Take how many events make a batch large enough, by the ticks' hints.

        `own` limits, which the application set, are kept as they are.
        """
        self._most = most
        self._own = own
        self._took_one = False  # and have not waited since
        self._reach: timedelta | None = None

    @property
    def limits(self) -> Limits:
        """The limits to ask for the next batch with; (None, None) is the next tick."""
        return self._own if self._reach is None else (self._most, self._reach)

    def took(self, batch: Batch | None) -> bool:
        """Note what was given; True: that was no answer, ask once more without limits.

        None under limits means only that fewer ticks are left than the reach.
        """
        if batch is None:
            again = self._reach is not None
            self._took_one, self._reach = False, None
            return again
        if self._took_one and self._own == (None, None):
            # A clock that was set back or forward between the ticks makes their distance negative
            # or very large: neither says how many ticks to take.
            reach = 2 * (batch.tick_time - batch.prev_tick_time)
            self._reach = min(reach, LONGEST_REACH) if reach > timedelta(0) else None
        self._took_one = True
        return False
