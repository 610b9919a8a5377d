"""The warning that no ticker seems to run, for a consumer that gets no batches. No I/O."""

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
    """Decides when to ask for the state of the queue, and whether to warn.

    Without a ticker nothing fails: events are inserted, and no batch comes. A user who forgot to
    start a ticker would wait for ever for a program that seems to work.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._suspect: int | None = None  # the last tick, if it was late at the last check
        self._next_check = clock() + CHECK_EVERY

    def batch_came(self) -> None:
        """Postpone the next check."""
        self._suspect = None
        self._next_check = max(self._next_check, self._clock() + CHECK_EVERY)

    @property
    def check_due(self) -> bool:
        """Whether it is time to ask for the state of the queue."""
        return self._clock() >= self._next_check

    def warning(self, queues: list[QueueInfo]) -> str | None:
        """Return the reason for a warning, or None.

        Being late once is no reason: the first event after a long pause makes its queue late for
        the milliseconds until the ticker sees it.
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
    """Say whether a ticker would have ticked this queue by now; a paused queue is never late."""
    if queue.queue_ticker_paused or queue.queue_external_ticker:
        return False
    if queue.ticker_lag is None:
        return True
    allowed = queue.queue_ticker_max_lag + SLACK
    if not queue.ev_new:
        allowed += 2 * queue.queue_ticker_idle_period
    return queue.ticker_lag > allowed
