"""Rates between two looks, and when to look again. Without I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

LEAST_PAUSE = 1.0  # seconds
LOST_PAUSE = 2.0  # seconds, while the database does not answer
# A pause lasts so many times what it follows. A look and two slow parts: 1/75 + 2/300 = 2 % of a
# core at most.
PAUSE = 75
SLOW_PAUSE = 300

Names = tuple[str, ...]


class Reached(NamedTuple):
    """Event ids at one time: the last of each queue, and the position of each consumer."""

    at: float  # by time.monotonic()
    seqs: Mapping[Names, int]


def rates(before: Reached | None, now: Reached) -> dict[Names, float]:
    """Return ids a second, for names that both looks have and whose ids did not fall."""
    if before is None or now.at <= before.at:
        return {}
    return {
        names: (seq - before.seqs[names]) / (now.at - before.at)
        for names, seq in now.seqs.items()
        if names in before.seqs and seq >= before.seqs[names]
    }


def pause_after(took: float) -> float:
    """Return the seconds to wait after a look that took `took` seconds."""
    return max(LEAST_PAUSE, PAUSE * took)


class SlowClock:
    """Says when an expensive part is due: `least` seconds after its end, or 300 times its time."""

    def __init__(self, least: float) -> None:
        """Be due at once."""
        self._least = least
        self._next = float("-inf")  # by time.monotonic()

    def is_due(self, now: float) -> bool:
        """Say whether it is due."""
        return now >= self._next

    def done(self, began: float, ended: float) -> None:
        """Note when it began and ended."""
        self._next = ended + max(self._least, SLOW_PAUSE * (ended - began))
