"""What a case found out, as data that a file can hold."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.rounds import Figure

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
    """A promise, and what came of it; `explanation` says why it was missed, if known."""

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
    """Lines of points (x, y), a line a contestant."""

    title: str
    x_label: str
    y_label: str
    series: dict[str, list[tuple[float, float]]]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Section:
    """What one case found out."""

    case: str
    title: str
    tables: list[Table]
    targets: list[Target]
    plots: list[Plot] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def to_json(section: Section) -> dict[str, Any]:
    """Return a section as what JSON can hold."""
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
