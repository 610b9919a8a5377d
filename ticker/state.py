"""What the tick loop remembers between two looks, and how long it waits until the next."""

from __future__ import annotations

from dataclasses import dataclass, field

from pgqpy.ticker.backoff import Backoff
from pgqpy.ticker.watch import Watch

QUIET_SHARE = 0.01
UNKNOWN = ""  # no snapshot looks like this


@dataclass(slots=True)
class TickState:
    """The memory of one active session."""

    watch: Watch = field(default_factory=Watch)
    failing: Backoff = field(default_factory=Backoff)
    snapshot: str = UNKNOWN

    def known_snapshot(self, now: float) -> str:
        """Return the snapshot after which nothing is to be done, or UNKNOWN to look anyway."""
        return UNKNOWN if self.failing and self.failing.due(now) else self.snapshot


def look_interval(quiet: float, took: float, *, busy: float, idle: float) -> float:
    """Return the seconds from the start of one look to the start of the next.

    `quiet` is the time since the last tick: the first event after a silence waits for at most a
    hundredth of it. `took` is what the last look took: a server that is slow, or has thousands of
    queues, is left alone for at least half of the time.
    """
    return max(busy, min(idle, quiet * QUIET_SHARE), 2 * took)
