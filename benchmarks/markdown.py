"""The results as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.figures import Figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.report import Cell, Record, Table, Target

THOUSAND, HUNDRED, TEN = 1000, 100, 10
HEAD = """# Results

The output of `make bench`, untouched. Contestants of a case take turns on the same server; a cell
is the median of the rounds, with the lowest and the highest in brackets. A ratio is the median of
the ratios of each round. `make bench PLOTS=1` draws the plots, and measures nothing.
"""


def render(records: Sequence[Record]) -> str:
    """Return the whole results file."""
    parts = [HEAD, _targets(records), *_environments(records), *map(_section, records)]
    return "\n".join(parts)


def number(value: float) -> str:
    """Return a number with three significant digits, or all digits before the point."""
    size = abs(value)
    if size >= HUNDRED or not size:
        return f"{value:,.0f}"
    if size >= TEN:
        return f"{value:.1f}"
    return f"{value:.2f}"


def cell(value: Cell) -> str:
    """Return the text of a cell of a table."""
    if isinstance(value, str):
        return value
    if not isinstance(value, Figure):
        return number(value)
    if len(value.values) == 1:
        return number(value.median)
    return f"{number(value.median)} ({number(value.low)}-{number(value.high)})"


def grid(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return a Markdown table; columns after the first `left` are aligned to the right."""
    rule = ["---" if index < left else "---:" for index in range(len(columns))]
    return "".join(f"| {' | '.join(row)} |\n" for row in (columns, rule, *rows))


def verdict(target: Target) -> str:
    """Return whether a target was met."""
    return "met" if target.met else "**missed**"


def _targets(records: Sequence[Record]) -> str:
    rows = [
        [record.section.case, target.text, target.wanted, number(target.got), verdict(target)]
        for record in records
        for target in record.section.targets
    ]
    return "## Targets\n\n" + grid(["case", "target", "wanted", "got", ""], rows, 2)


def _environments(records: Sequence[Record]) -> list[str]:
    """Return the environment; one for all cases, unless they ran on different machines."""
    seen: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for record in records:
        seen.setdefault(tuple(record.environment.items()), []).append(record.section.case)
    return [
        "## Measured on"
        + (f": {', '.join(cases)}" if len(seen) > 1 else "")
        + "\n\n"
        + "".join(f"- {name}: {value}\n" for name, value in environment)
        for environment, cases in seen.items()
    ]


def _section(record: Record) -> str:
    section = record.section
    parts = [f"## {section.case}: {section.title}\n", f"{_origin(record)}\n"]
    parts += [_table(table) for table in section.tables]
    parts += [f"Plot: {plot.title}\n" for plot in section.plots]
    parts += [_target(target) for target in section.targets]
    parts += [f"- {note}\n" for note in section.notes]
    return "\n".join(parts)


def _origin(record: Record) -> str:
    rounds = "1 round" if record.rounds == 1 else f"{record.rounds} rounds"
    return (
        f"{record.when}, commit {record.commit}, length {record.length}, {rounds}, "
        f"took {record.seconds:,.0f} s"
    )


def _table(table: Table) -> str:
    rows = [[cell(value) for value in row] for row in table.rows]
    note = f"\n{table.note}\n" if table.note else ""
    return f"{table.title} ({table.unit})\n\n{grid(table.columns, rows)}{note}"


def _target(target: Target) -> str:
    why = f": {target.explanation}" if target.explanation else ""
    return f"- {target.text}: {number(target.got)}, wanted {target.wanted}, {verdict(target)}{why}"
