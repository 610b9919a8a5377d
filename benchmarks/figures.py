"""Figures: rounds of contestants, ratios, percentiles, and the check of what was counted."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class Wrong(Exception):
    """Other events came out than went in: the figures mean nothing."""


def verify(what: str, got: object, wanted: object) -> None:
    """Raise Wrong unless `got` equals `wanted`."""
    if got != wanted:
        raise Wrong(f"{what}: {got}, should be {wanted}")


class Figure(NamedTuple):
    """The values that one contestant reached, one for each round."""

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
    """Run each contestant once a round, so that a slow minute of the machine hits all of them.

    Another contestant begins each round. `say` gets the progress, as "round 2 of 3, pgqpy".
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
    """Return the median of the ratios of each round: a disturbance of both cancels out."""
    return ratios(one, other).median


def ratios(one: Figure, other: Figure) -> Figure:
    """Return the ratio of each round."""
    return Figure([a / b for a, b in zip(one.values, other.values, strict=True)])


def percentile(values: Iterable[float], percent: float) -> float:
    """Return the value that `percent` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(len(ordered) * percent / 100))]
