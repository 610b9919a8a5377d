"""What the tick loop remembers between two looks, and how long it waits until the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from pgqpy.ticker.backoff import Backoff
from pgqpy.ticker.watch import Watch

QUIET_SHARE = 0.01
UNKNOWN = b""  # no snapshot looks like this


class Pace(NamedTuple):
    """How often to look, in seconds: after a tick, while events come in, in long silence."""

    tick: float
    busy: float
    idle: float


@dataclass(slots=True)
class TickState:
    """The memory of one active session."""

    watch: Watch = field(default_factory=Watch)
    failing: Backoff = field(default_factory=Backoff)
    snapshot: bytes = UNKNOWN

    def known_snapshot(self, now: float) -> bytes:
        """Return the snapshot after which nothing is to be done, or UNKNOWN to look anyway."""
        return UNKNOWN if self.failing and self.failing.due(now) else self.snapshot


def look_interval(quiet: float, took: float, *, pace: Pace) -> float:
    """Return the seconds from the start of one look to the start of the next.

    `quiet` is the time since the last tick, 0 if this look ticked: a tick makes a batch for every
    consumer, so the next comes after a longer interval than the next look does. The first event
    after a silence waits for at most a hundredth of it. `took` is what the look took: a server
    that is slow, or has thousands of queues, is left alone for at least half of the time.
    """
    wanted = min(pace.idle, quiet * QUIET_SHARE) if quiet else pace.tick
    return max(pace.busy, wanted, 2 * took)
