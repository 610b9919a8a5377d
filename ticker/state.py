"""What the tick loop remembers between two looks, and how long it waits until the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from pgqpy.ticker.backoff import Backoff
from pgqpy.ticker.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgqpy.ticker.watch import Slice

QUIET_SHARE = 0.01
HOT_FOR = 2.0  # seconds after its last tick that a queue among many is looked at every time
ROUND = 0.016  # seconds in which all others are looked at once, while something is written
SLICES = 4  # at most so many in one look
BUSY_SLICES = 2  # while events come in elsewhere, and wait for it
HOT_QUEUES = 256  # at most: more are as well looked at in turns
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
    failing_ids: dict[str, int] = field(default_factory=dict)
    locked: set[int] = field(default_factory=set)  # failing, and not to be looked at with others
    hot: dict[int, float] = field(default_factory=dict)  # when last ticked, the longest ago first
    snapshot: bytes = UNKNOWN
    slice_at: float = -ROUND  # when the next slice is to be looked at, monotonic seconds

    def known_snapshot(self, now: float) -> bytes:
        """Return the snapshot after which nothing is to be done, or UNKNOWN to look anyway."""
        return UNKNOWN if self.failing and self.failing.due(now) else self.snapshot

    def ticked(self, queue_id: int, now: float) -> None:
        """Look at this queue every time for a while: where events come in, more will."""
        self.hot.pop(queue_id, None)
        self.hot[queue_id] = now

    def hot_ids(self, now: float) -> list[int]:
        """Return the queues to look at every time, and those that failed and are to be tried."""
        while self.hot:
            oldest, when = next(iter(self.hot.items()))
            if now - when < HOT_FOR and len(self.hot) <= HOT_QUEUES:
                break
            del self.hot[oldest]
        again = (self.failing_ids[name] for name in self.failing.names_due(now))
        return list(dict.fromkeys([*self.hot, *islice(again, HOT_QUEUES)]))

    def next_slices(self, now: float) -> Iterator[Slice]:
        """Yield the slices to look at now: what is left of a round, one round a period at most."""
        self.slice_at = max(self.slice_at, now - ROUND)
        for _ in range(BUSY_SLICES if self.hot else SLICES):
            if not self.watch.stale or self.slice_at >= now:
                return
            self.slice_at += ROUND / self.watch.slices
            yield self.watch.next()

    def failed(self, queue: str, queue_id: int, now: float) -> int:
        """Note a failure and return how many there were in a row."""
        self.failing_ids[queue] = queue_id
        return self.failing.failed(queue, now)

    def succeeded(self, queue: str) -> int:
        """Note that a queue works, or need not, and return how many failures in a row it ended."""
        self.failing_ids.pop(queue, None)
        return self.failing.succeeded(queue)


def look_interval(quiet: float, took: float, *, pace: Pace, more: bool = False) -> float:
    """Return the seconds from the start of one look to the start of the next.

    `quiet` is the time since the last tick, 0 if this look ticked: a tick makes a batch for every
    consumer, so the next comes after a longer interval than the next look does. The first event
    after a silence waits for at most a hundredth of it. `more` is left to do: that waits no longer
    than the next of many events. `took` is what the look took: a server that is slow, or has
    thousands of queues, is left alone for at least half of the time.
    """
    wanted = min(pace.idle, quiet * QUIET_SHARE) if quiet else pace.tick
    if more and quiet:
        wanted = pace.busy
    return max(pace.busy, wanted, 2 * took)
