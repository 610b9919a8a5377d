"""When a consumer that gets no batch says that nobody seems to tick. No I/O."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgqpy.records import QueueInfo

LOOK_EVERY = 5.0  # seconds without a batch
WARN_EVERY = 600.0  # seconds
SLACK = timedelta(seconds=10)  # a ticker that restarts, or is busy, is not missing


class Silence:
    """Knows for how long no batch came, and when that was last complained of.

    Without a ticker nothing fails: events go in, and no batch comes. Who forgot to start one would
    sit for ever in front of a program that seems to work.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._suspect: int | None = None  # the tick that was the last one, and late, a look ago
        self._look_at = clock() + LOOK_EVERY

    def broken(self) -> None:
        """Note that a batch came."""
        self._suspect = None
        self._look_at = max(self._look_at, self._clock() + LOOK_EVERY)

    @property
    def due(self) -> bool:
        """Whether it is time to look at the queue."""
        return self._clock() >= self._look_at

    def complaint(self, queues: list[QueueInfo]) -> str | None:
        """Judge what the look found: the text of a warning, or None.

        Late once is not enough: the event after a long rest makes its queue late for the
        milliseconds until the ticker sees it.
        """
        self._look_at = self._clock() + LOOK_EVERY
        late = next(filter(is_late, queues), None)
        before, self._suspect = self._suspect, (late.last_tick_id or 0) if late else None
        if late is None or before != self._suspect:
            return None
        self._look_at = self._clock() + WARN_EVERY
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
