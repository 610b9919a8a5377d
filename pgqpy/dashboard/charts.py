"""Charts of the last 24 hours, and the ruler of a queue, as SVG that needs no script. No I/O."""

from __future__ import annotations

import math
from datetime import timedelta
from html import escape
from typing import TYPE_CHECKING, Literal, NamedTuple

from markupsafe import Markup

from pgqpy.dashboard.render import number
from pgqpy.texts import duration, noun, printable, rate

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
        ("lag", lags, lambda value: duration(timedelta(seconds=value))),
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
        duration(timedelta(seconds=before)) if before > GAP else "",
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


# The ruler has the age on a logarithmic scale, now at the right: so a consumer that is two seconds
# behind and one that is two days behind are both to be seen. All positions are per cent of the
# width, so that text keeps its size on narrow screens.
LABELS = (
    *((0, "now"), (1, "1 s"), (10, "10 s"), (60, "1 min"), (600, "10 min"), (3600, "1 h")),
    *((21600, "6 h"), (86400, "1 d"), (604800, "7 d"), (2592000, "30 d"), (31536000, "1 y")),
)
LEAST = 60.0  # seconds that the ruler shows at least
APART = 8.0  # per cent between two labels of the axis
AXIS, TICKS, ROW = 22, 34, 26  # heights
LONGEST = 40  # characters of a name
MIDDLE = 50.0  # per cent; a label is on the side where there is more room


class Mark(NamedTuple):
    """A tick: its age in seconds, and an estimate of the events since the mark before."""

    age: float
    events: int


class Flag(NamedTuple):
    """A consumer: the age of the last finished tick, in seconds.

    Attributes:
        batch: the age of the tick that ends its open batch; None: no batch is open.
    """

    name: str
    age: float
    state: Literal["ok", "late", "detached"] = "ok"
    batch: float | None = None
    note: str = ""


class Bar(NamedTuple):
    """An event table, from its first to its last event; `first` is None if it is empty.

    `next` is the table that the next rotation truncates, `note` who keeps it.
    """

    name: str
    state: str  # current, older or next
    first: float | None
    last: float | None
    note: str = ""


def ruler(marks: Sequence[Mark], flags: Sequence[Flag], bars: Sequence[Bar]) -> str:
    """Return the picture; all texts in it are escaped."""
    ages = [mark.age for mark in marks] + [flag.age for flag in flags]
    ages += [bar.first for bar in bars if bar.first is not None]
    scale = Scale(max([LEAST, *ages]))
    height = AXIS + TICKS + ROW * (len(flags) + len(bars))
    parts = [*_axis(scale, height), *_ticks(scale, marks)]
    top = AXIS + TICKS
    for flag in flags:
        parts += _flag(scale, flag, top)
        top += ROW
    for bar in bars:
        parts += _bar(scale, bar, top)
        top += ROW
    counts = (("tick", len(marks)), ("consumer", len(flags)), ("table", len(bars)))
    label = ", ".join(f"{count} {noun(count, what)}" for what, count in counts) + " by age"
    opening = f'<svg class="ruler" width="100%" height="{height}" role="img" aria-label="{label}">'
    return "\n".join([opening, *parts, "</svg>"])


class Scale:
    """Where an age is on the picture, in per cent from the left."""

    def __init__(self, oldest: float) -> None:
        """Show ages up to the oldest one, in seconds."""
        self.oldest = oldest

    def __call__(self, age: float) -> float:
        """Return the place of an age; one in the future is now."""
        share = math.log1p(max(age, 0.0)) / math.log1p(self.oldest)
        return round(98.0 - 96.0 * min(share, 1.0), 2)  # a margin of 2 % at both sides


def _axis(scale: Scale, height: int) -> Iterator[str]:
    before = 100.0 + APART
    for seconds, label in LABELS:
        x = scale(seconds)
        if seconds <= scale.oldest and before - x >= APART:
            before = x
            yield f'<line class="grid" x1="{x}%" x2="{x}%" y1="{AXIS - 4}" y2="{height}"/>'
            yield f'<text class="axis" x="{x}%" y="14" text-anchor="middle">{label}</text>'


def _ticks(scale: Scale, marks: Sequence[Mark]) -> Iterator[str]:
    """Draw a line for each tick; the more events it has, the higher, by the logarithm."""
    most = math.log1p(max((mark.events for mark in marks), default=0)) or 1.0
    bottom = AXIS + TICKS - 4
    for mark in marks:
        x, share = scale(mark.age), math.log1p(max(mark.events, 0)) / most
        top = round(bottom - 4 - share * (TICKS - 12), 1)
        kind = "tick" if mark.events else "tick empty"
        yield f'<line class="{kind}" x1="{x}%" x2="{x}%" y1="{top}" y2="{bottom}"/>'


def _flag(scale: Scale, flag: Flag, top: int) -> Iterator[str]:
    x, y = scale(flag.age), top + ROW // 2
    yield f'<g class="flag {flag.state}">'
    yield f'<line class="way" x1="{x}%" x2="98%" y1="{y}" y2="{y}"/>'
    if flag.batch is not None:
        width = round(max(scale(flag.batch) - x, 0.4), 2)
        yield f'<rect class="batch" x="{x}%" y="{y - 4}" width="{width}%" height="8"/>'
    yield f'<circle cx="{x}%" cy="{y}" r="5"/>'
    yield _label(x, y, flag.name, flag.note)
    yield "</g>"


def _bar(scale: Scale, bar: Bar, top: int) -> Iterator[str]:
    y = top + 5
    yield f'<g class="table {bar.state}">'
    left = 2.0 if bar.first is None else scale(bar.first)
    right = left if bar.first is None else scale(bar.last or 0.0)
    width = round(max(right - left, 0.4), 2)
    yield f'<rect x="{left}%" y="{y}" width="{width}%" height="{ROW - 10}" rx="2"/>'
    if bar.state == "next" and bar.note:
        end = round(left + width, 2)
        yield f'<line class="bracket" x1="{left}%" x2="{end}%" y1="{y - 3}" y2="{y - 3}"/>'
    yield _label(left, top + ROW // 2, bar.name, bar.note)
    yield "</g>"


def _label(x: float, y: int, name: str, note: str) -> str:
    side = "start" if x < MIDDLE else "end"
    shift = 9 if x < MIDDLE else -9
    text = escape(printable(name, LONGEST))
    more = f'<tspan class="note"> {escape(printable(note, 2 * LONGEST))}</tspan>' if note else ""
    return f'<text x="{x}%" dx="{shift}" y="{y + 4}" text-anchor="{side}">{text}{more}</text>'
