"""What the tick loop remembers between two looks, and how long it waits until the next."""

from __future__ import annotations

from dataclasses import dataclass, field

from pgqpy.ticker.backoff import Backoff
from pgqpy.ticker.watch import Watch

BUSY_FOR = 2.0  # seconds without a tick until looks get rarer
UNKNOWN = ""  # no snapshot looks like this


@dataclass(slots=True)
class TickState:
    """One active session's memory. A new one ticks every queue once, which is what a daemon that
    takes over must do: it does not know for whom its predecessor was still waiting.
    """

    watch: Watch = field(default_factory=Watch)
    failing: Backoff = field(default_factory=Backoff)
    snapshot: str = UNKNOWN

    def known_snapshot(self, now: float) -> str:
        """Return the snapshot after which nothing is to be done, or UNKNOWN to look anyway."""
        return UNKNOWN if self.failing.due(now) else self.snapshot


def look_interval(now: float, last_tick: float, *, busy: float, idle: float) -> float:
    """Return the seconds between two looks: `busy` while events come in, else `idle`."""
    return busy if now - last_tick < BUSY_FOR else max(busy, idle)
