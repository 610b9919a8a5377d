"""Pauses for queues that fail repeatedly, so that they do not delay the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

FIRST_PAUSE = 0.1  # seconds
LONGEST_PAUSE = 10.0  # seconds


class Failing(NamedTuple):
    """The number of failures in a row, and when (monotonic seconds) to try again."""

    times: int
    retry_at: float


class Backoff:
    """The failing queues, by name, and when each may be tried again (monotonic seconds)."""

    def __init__(self, *, first: float = FIRST_PAUSE, longest: float = LONGEST_PAUSE) -> None:
        """Pause `first` seconds after one failure, twice that after two, at most `longest`."""
        self._first = first
        self._longest = longest
        self._failing: dict[str, Failing] = {}

    def __bool__(self) -> bool:
        """Say whether anything is failing."""
        return bool(self._failing)

    def failed(self, name: str, now: float) -> int:
        """Record a failure; return the number of failures in a row."""
        times = self._failing[name].times + 1 if name in self._failing else 1
        # The exponent is bounded: a float overflows after a thousand failures.
        pause = min(self._longest, self._first * 2.0 ** min(times - 1, 30))
        self._failing[name] = Failing(times, now + pause)
        return times

    def succeeded(self, name: str) -> int:
        """Record a success; return the number of failures in a row before it."""
        ended = self._failing.pop(name, None)
        return 0 if ended is None else ended.times

    def pausing(self, name: str, now: float) -> bool:
        """Say whether the queue is in its pause."""
        failing = self._failing.get(name)
        return failing is not None and now < failing.retry_at

    def due(self, now: float) -> bool:
        """Say whether a failing queue may be tried again now."""
        return any(failing.retry_at <= now for failing in self._failing.values())

    def names_due(self, now: float) -> list[str]:
        """Return the failing queues that may be tried again now."""
        return [name for name, failing in self._failing.items() if failing.retry_at <= now]

    def keep(self, names: Iterable[str]) -> None:
        """Remove all queues but `names`: the others are not due any more, or gone."""
        left = set(names)
        self._failing = {name: why for name, why in self._failing.items() if name in left}

    def names(self) -> list[str]:
        """Return the failing queues."""
        return sorted(self._failing)
