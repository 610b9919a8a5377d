"""Pauses for queues that fail repeatedly, so that they do not delay the others."""

from __future__ import annotations

from typing import NamedTuple

FIRST_PAUSE = 0.1  # seconds after one failure; twice that after two
LONGEST_PAUSE = 10.0  # seconds


class Failing(NamedTuple):
    """The number of failures in a row, and when (monotonic seconds) to try again."""

    times: int
    retry_at: float


NO_FAILURE = Failing(0, 0.0)


class Backoff(dict[str, Failing]):
    """The failing queues, by name."""

    def failed(self, name: str, now: float) -> int:
        """Record a failure; return the number of failures in a row."""
        times = self.get(name, NO_FAILURE).times + 1
        # The exponent is bounded: a float overflows after a thousand failures.
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(times - 1, 30))
        self[name] = Failing(times, now + pause)
        return times

    def succeeded(self, name: str) -> int:
        """Record a success; return the number of failures in a row before it."""
        return self.pop(name, NO_FAILURE).times

    def pausing(self, name: str, now: float) -> bool:
        """Say whether the queue is in its pause."""
        return now < self.get(name, NO_FAILURE).retry_at

    def due(self, now: float) -> list[str]:
        """Return the failing queues that may be tried again now."""
        return [name for name, failing in self.items() if failing.retry_at <= now]
