"""Charts of the last 24 hours, as SVG that needs no script. No I/O."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup

from pgqpy.dashboard.render import age, number, rate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from pgqpy.records import HistoryPoint

    Sample = tuple[float, float | None]  # seconds before now, and the value

SPAN = timedelta(hours=24)
WIDTH, HEIGHT = 600, 90
GAP = 180.0  # seconds without a point that break the line


class Chart(NamedTuple):
    """A chart: its name, its picture, its last and its highest value as text.

    `ago` is the age of the last point, if it is older than a few minutes: no ticker wrote since.
    """

    name: str
    picture: Markup
    last: str
    highest: str
    ago: str = ""


def charts(points: Sequence[HistoryPoint], now: datetime) -> list[Chart]:
    """Return the charts of a queue or a consumer; none without a point."""
    if not points:
        return []
    ages = [(now - point.time).total_seconds() for point in points]
    lags = [None if each.lag is None else each.lag.total_seconds() for each in points]
    kinds: list[tuple[str, Sequence[float | None], Callable[[float], str]]] = [
        ("events a second", [each.events_per_second for each in points], rate),
        ("lag", lags, lambda value: age(timedelta(seconds=value))),
        ("pending events", [each.pending_events for each in points], _count),
        ("dead events", [each.dead_events for each in points], _count),
        ("waiting for retry", [each.retry_events for each in points], _count),
    ]
    return [
        _chart(name, list(zip(ages, values, strict=True)), write) for name, values, write in kinds
    ]


def _count(value: float) -> str:
    return number(int(value))


def _chart(name: str, samples: Sequence[Sample], write: Callable[[float], str]) -> Chart:
    known = [value for _, value in samples if value is not None]
    before, last = samples[-1]
    return Chart(
        name,
        Markup(draw(samples)),  # noqa: S704  # numbers only
        "-" if last is None else write(last),
        write(max(known)) if known else "-",
        age(timedelta(seconds=before)) if before > GAP else "",
    )


def draw(samples: Sequence[Sample]) -> str:
    """Return a picture of values over time: now at the right, 0 at the bottom."""
    highest = max((value for _, value in samples if value is not None), default=0) or 1.0
    lines = [
        f'<polyline points="{" ".join(_place(sample, highest) for sample in run)}"/>'
        for run in _runs(samples)
    ]
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none"'
    return f'<svg class="chart" {box} aria-hidden="true">{"".join(lines)}</svg>'


def _runs(samples: Sequence[Sample]) -> Iterator[list[Sample]]:
    """Split the samples where values are missing for a while; a single one is a short line."""
    runs: list[list[Sample]] = [[]]
    for sample in samples:
        run = runs[-1]
        if run and (sample[1] is None or run[-1][0] - sample[0] > GAP):
            runs.append([])
        if sample[1] is not None:
            runs[-1].append(sample)
    for run in filter(None, runs):
        yield run if len(run) > 1 else [run[0], (run[0][0] - GAP / 3, run[0][1])]


def _place(sample: Sample, highest: float) -> str:
    before, value = sample
    share = min(max(before / SPAN.total_seconds(), 0.0), 1.0)
    height = (HEIGHT - 4) * (value or 0.0) / highest
    return f"{WIDTH * (1 - share):.1f},{HEIGHT - 2 - height:.1f}"
