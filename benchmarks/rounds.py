"""Rounds of contestants that take turns, so that a slow minute of the machine hits them all."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Figure(NamedTuple):
    """What one contestant reached, a value a round."""

    values: list[float]

    @property
    def median(self) -> float:
        """The value that half of the rounds do not exceed."""
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        """The lowest value."""
        return min(self.values)

    @property
    def high(self) -> float:
        """The highest value."""
        return max(self.values)


def interleave(
    contestants: Mapping[str, Callable[[], float]],
    rounds: int,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Figure]:
    """Let each contestant run once a round; who begins changes from round to round.

    `say` is told who runs, as "round 2 of 3, pgqpy".
    """
    names = list(contestants)
    values: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            say(f"round {number + 1} of {rounds}, {name}")
            values[name].append(contestants[name]())
    return {name: Figure(found) for name, found in values.items()}


def ratio(one: Figure, other: Figure) -> float:
    """Return the median of the ratios of each round: what both met in it cancels out."""
    return ratios(one, other).median


def ratios(one: Figure, other: Figure) -> Figure:
    """Return the ratio of each round."""
    return Figure([a / b for a, b in zip(one.values, other.values, strict=True)])
