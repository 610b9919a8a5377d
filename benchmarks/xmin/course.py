"""The course of a run: cycles and latency at its beginning and at its end."""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.figures import percentile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.xmin.dead import Sample

PART = 0.2  # of the run: its beginning and its end are compared

Timed = tuple[int, int]  # when (ms), how long (µs)


class Part(NamedTuple):
    """The beginning or the end of a run, in milliseconds."""

    cycle: float  # median
    p99: float  # latency: the median of the 99th percentiles of each second


class Course(NamedTuple):
    """One contestant's run."""

    cycles: float  # a second
    first: Part
    last: Part
    slow: list[tuple[float, float]]  # second, median cycle (ms) in it
    samples: list[Sample]
    missing: int = 0  # events that had not been delivered a minute after the end

    @property
    def cycle_growth(self) -> float:
        """The cycle at the end against the beginning."""
        return self.last.cycle / self.first.cycle

    @property
    def latency_growth(self) -> float:
        """The latency at the end against the beginning."""
        return self.last.p99 / self.first.p99

    def most(self, kind: str) -> int:
        """Return the most dead rows at any time, in all tables of a kind."""
        return max(sample.total(kind) for sample in self.samples)

    def most_by_table(self) -> dict[str, int]:
        """Return the most dead rows of each small table."""
        found = [sample.dead["small"] for sample in self.samples]
        return {name: max(dead.get(name, 0) for dead in found) for name in found[-1]}


def course(
    cycles: Sequence[Timed],
    events: Sequence[Timed],
    span: tuple[int, int],
    samples: list[Sample],
) -> Course:
    """Cut a run that lasted from `span[0]` to `span[1]` (ms) into its parts."""
    start, stop = span
    length = int((stop - start) * PART)
    slow = [
        ((second * 1000 - start) / 1000, median(found) / 1000)
        for second, found in sorted(by_second(within(cycles, start, stop)).items())
    ]
    return Course(
        cycles=len(within(cycles, start, stop)) * 1000 / (stop - start),
        first=part(cycles, events, start, start + length),
        last=part(cycles, events, stop - length, stop),
        slow=slow,
        samples=samples,
    )


def within(found: Sequence[Timed], start: int, stop: int) -> list[Timed]:
    """Return the values of a span."""
    return [one for one in found if start <= one[0] < stop]


def by_second(found: Sequence[Timed]) -> dict[int, list[int]]:
    """Return the durations of each second."""
    seconds = defaultdict(list)
    for at, took in found:
        seconds[at // 1000].append(took)
    return seconds


def part(cycles: Sequence[Timed], events: Sequence[Timed], start: int, stop: int) -> Part:
    """Return the figures of one part."""
    took = [took for _, took in within(cycles, start, stop)]
    seconds = by_second(within(events, start, stop)).values()
    return Part(middle(took) / 1000, middle([percentile(found, 99) for found in seconds]) / 1000)


def middle(values: Sequence[float]) -> float:
    """Return the median; infinity if there are no values."""
    return median(values) if values else math.inf
