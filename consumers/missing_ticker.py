"""The warning of a consumer without batches that no ticker seems to run. No I/O."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgqpy.records import QueueInfo

CHECK_EVERY = 5.0  # seconds without a batch
WARN_EVERY = 600.0  # seconds
SLACK = timedelta(seconds=10)  # for a ticker that restarts or is busy


class MissingTicker:
    """Knows how long no batch came, and when the last warning was.

    Without a ticker nothing fails: events go in, and no batch comes. A user who forgot to start a
    ticker would wait for ever in front of a program that seems to work.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._suspect: int | None = None  # the last tick, if it was late at the last check
        self._next_check = clock() + CHECK_EVERY

    def batch_came(self) -> None:
        """Note that a batch came."""
        self._suspect = None
        self._next_check = max(self._next_check, self._clock() + CHECK_EVERY)

    @property
    def check_due(self) -> bool:
        """Whether it is time to ask for the state of the queue."""
        return self._clock() >= self._next_check

    def warning(self, queues: list[QueueInfo]) -> str | None:
        """Return the reason for a warning, or None if there is none to give.

        Late once is not enough: the event after a long rest makes its queue late for the
        milliseconds until the ticker sees it.
        """
        self._next_check = self._clock() + CHECK_EVERY
        late = next(filter(is_late, queues), None)
        before, self._suspect = self._suspect, (late.last_tick_id or 0) if late else None
        if late is None or before != self._suspect:
            return None
        self._next_check = self._clock() + WARN_EVERY
        lag = late.ticker_lag
        last = "never" if lag is None else f"{lag.total_seconds():.0f} s ago"
        return f"last tick {last}, {late.ev_new or 0} event(s) wait"


def is_late(queue: QueueInfo) -> bool:
    """Say whether a ticker would have ticked this queue since; if nobody should, it is not late."""
    if queue.queue_ticker_paused or queue.queue_external_ticker:
        return False
    if queue.ticker_lag is None:
        return True
    allowed = queue.queue_ticker_max_lag + SLACK
    if not queue.ev_new:
        allowed += 2 * queue.queue_ticker_idle_period
    return queue.ticker_lag > allowed
