"""The files of the results: a compact JSON file for each case, and results.md beside them."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from benchmarks import cases, markdown, report

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.report import Plot, Record

POINTS = 200  # of a line in a plot
Point = tuple[float, float]


def save(record: Record, folder: Path) -> None:
    """Write a record into `folder`, and the results file beside it anew."""
    folder.mkdir(parents=True, exist_ok=True)
    section = replace(record.section, plots=[_thinned(plot) for plot in record.section.plots])
    found: dict[str, Any] = {**vars(record), "section": report.to_json(section)}
    text = json.dumps(found, separators=(",", ":"), ensure_ascii=False)
    (folder / f"{section.case}.json").write_text(text + "\n")
    (folder.parent / "results.md").write_text(markdown.render(load(folder)))


def load(folder: Path) -> list[Record]:
    """Return the records of a folder, in the order of the cases."""
    files = [folder / f"{case}.json" for case in cases.ORDER]
    return [_read(json.loads(file.read_text())) for file in files if file.exists()]


def thin(points: list[Point]) -> list[Point]:
    """Return at most POINTS points: the highest of each part of a longer line, so peaks stay."""
    count = min(len(points), POINTS)
    bounds = [len(points) * number // count for number in range(count + 1)] if count else []
    parts = (points[start:end] for start, end in itertools.pairwise(bounds))
    return [_rounded(max(part, key=lambda point: point[1])) for part in parts]


def _rounded(point: Point) -> Point:
    x, y = (float(f"{value:.5g}") for value in point)  # more digits are no difference to see
    return x, y


def _thinned(plot: Plot) -> Plot:
    return replace(plot, series={name: thin(line) for name, line in plot.series.items()})


def _read(found: dict[str, Any]) -> Record:
    return report.Record(**{**found, "section": report.from_json(found["section"])})
