"""One sweep: points that are measured in turns, and each point's cost relative to the first."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.figures import Figure, ratio
from benchmarks.report import Plot, Table, Target, at_most

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from benchmarks.bench import Bench

FLAT = 1.3  # times the first point's cost

Costs = dict[str, float]


class Sweep(NamedTuple):
    """The quantity that grew, and each cost at each point; a cost may lack some points."""

    title: str
    grows: str
    costs: dict[str, dict[int, Figure]]


def take_turns(
    bench: Bench, title: str, grows: str, points: Mapping[int, Callable[[], Costs]]
) -> Sweep:
    """Measure each point once a round; another point begins each round."""
    found: dict[str, dict[int, list[float]]] = {}
    names = list(points)
    for number in range(bench.rounds):
        first = number % len(names)
        for point in names[first:] + names[:first]:
            bench.say(f"round {number + 1} of {bench.rounds}, {point:,} {grows}")
            for cost, value in points[point]().items():
                found.setdefault(cost, {}).setdefault(point, []).append(value)
    costs = {
        cost: {point: Figure(values) for point, values in sorted(of.items())}
        for cost, of in found.items()
    }
    return Sweep(title, grows, costs)


def median_time(calls: Iterable[Callable[[], object]]) -> float:
    """Return the median time of a call in microseconds."""
    return statistics.median(timed(call) for call in calls)


def timed(call: Callable[[], object]) -> float:
    """Return how long a call takes, in microseconds."""
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e6


def growth(of: Mapping[int, Figure]) -> dict[int, float]:
    """Return each point's cost against the first point's: the median of the rounds' ratios."""
    first = of[min(of)]
    return {point: ratio(figure, first) for point, figure in of.items()}


def table(sweep: Sweep) -> Table:
    """Return a row for each point: its costs, and their ratios to the first point's."""
    points = sorted({point for of in sweep.costs.values() for point in of})
    columns = [text for cost in sweep.costs for text in (cost, "to first")]
    ratios = {cost: growth(of) for cost, of in sweep.costs.items()}
    rows = [
        [
            f"{point:,} {sweep.grows}",
            *(
                cell
                for cost, of in sweep.costs.items()
                for cell in ((of[point], ratios[cost][point]) if point in of else ("", ""))
            ),
        ]
        for point in points
    ]
    return Table(sweep.title, ["", *columns], rows, unit="as the columns say")


def targets(sweep: Sweep) -> list[Target]:
    """Return a verdict for each cost: that of the worst point after the first."""
    return [
        at_most(
            f"{sweep.title}: {cost}, worst point to first", max([*growth(of).values()][1:]), FLAT
        )
        for cost, of in sweep.costs.items()
    ]


def plot(sweep: Sweep) -> Plot:
    """Return each cost's growth as a line."""
    series = {
        cost: [(float(point), times) for point, times in growth(of).items()]
        for cost, of in sweep.costs.items()
    }
    return Plot(sweep.title, sweep.grows, "cost to the first point's", series, log_x=True)
