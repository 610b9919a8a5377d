"""The results of a case, as data that a file can hold: tables, targets, plots, notes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.figures import Figure

Cell = str | float | Figure


@dataclass(frozen=True)
class Table:
    """Figures of contestants; the first column names the contestant.

    Attributes:
        title: what was measured.
        columns: their headings, the contestants' included.
        rows: a contestant's name, then its figures. A Figure is shown as median and spread.
        unit: of every figure, as "events/s".
        note: a sentence below the table.
    """

    title: str
    columns: list[str]
    rows: list[list[Cell]]
    unit: str
    note: str = ""


@dataclass(frozen=True)
class Target:
    """A promise, and the figure that was got; `explanation` says why it was missed, if known."""

    text: str
    wanted: str
    got: float
    met: bool
    explanation: str = ""


def at_least(text: str, got: float, bound: float, explanation: str = "") -> Target:
    """Say whether `got` reaches `bound`."""
    return Target(text, f"≥ {bound:g}", got, got >= bound, explanation)


def at_most(text: str, got: float, bound: float, explanation: str = "") -> Target:
    """Say whether `got` stays within `bound`."""
    return Target(text, f"≤ {bound:g}", got, got <= bound, explanation)


@dataclass(frozen=True)
class Plot:
    """Lines of points (x, y), one for each contestant."""

    title: str
    x_label: str
    y_label: str
    series: dict[str, list[tuple[float, float]]]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Section:
    """The results of one case."""

    case: str
    title: str
    tables: list[Table]
    targets: list[Target]
    plots: list[Plot] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Record:
    """A section, and when, where and how long it was measured.

    Attributes:
        section: the results of the case.
        when: the day and the minute, UTC.
        commit: of the working tree; "+" if it had changes.
        length: smoke, default or long.
        rounds: how often each contestant ran.
        seconds: how long the case took.
        environment: names and values: machine, versions, settings.
    """

    section: Section
    when: str
    commit: str
    length: str
    rounds: int
    seconds: float
    environment: dict[str, str]


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text, each as one line: the notes of a section."""
    return [" ".join(part.split()) for part in text.split("\n\n")]


def to_json(section: Section) -> dict[str, Any]:
    """Return a section as values that JSON can hold."""
    found = asdict(section)
    for table in found["tables"]:
        table["rows"] = [[_cell(cell) for cell in row] for row in table["rows"]]
    return found


def from_json(found: dict[str, Any]) -> Section:
    """Return the section that `to_json` wrote."""
    tables = [
        Table(**{**table, "rows": [[_figure(cell) for cell in row] for row in table["rows"]]})
        for table in found["tables"]
    ]
    plots = [
        Plot(**{**plot, "series": {k: [(x, y) for x, y in v] for k, v in plot["series"].items()}})
        for plot in found["plots"]
    ]
    targets = [Target(**target) for target in found["targets"]]
    return Section(**{**found, "tables": tables, "targets": targets, "plots": plots})


def _cell(cell: Cell) -> Any:
    return {"values": cell.values} if isinstance(cell, Figure) else cell


def _figure(cell: Any) -> Cell:
    return Figure(cell["values"]) if isinstance(cell, dict) else cell
