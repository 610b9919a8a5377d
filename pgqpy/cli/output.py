"""Data on stdout (a table on a terminal, aligned text in a pipe, or JSON), messages on stderr."""

from __future__ import annotations

import json
import sys
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from pgqpy.texts import duration, escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Row = Mapping[str, Any]

NAMES = ("queue", "consumer", "field")  # headings of columns with names
WIDEST = 100_000  # characters


def say(text: str) -> None:
    """Print a message on stderr."""
    click.echo(text, err=True)


def show_rows(
    rows: Iterable[Row],
    columns: Mapping[str, str],
    *,
    as_json: bool,
    styles: Mapping[str, str] | None = None,
) -> None:
    """Print rows. `columns` maps each heading to a field; JSON has all fields.

    `styles` maps the text of a row's first cell to the row's style on a terminal.
    """
    rows = list(rows)
    if as_json:
        _show_json(rows)
        return
    cells = [[as_text(row.get(field)) for field in columns.values()] for row in rows]
    _show(list(columns), cells, styles or {})


def show_row(row: Row, *, as_json: bool) -> None:
    """Print one row, with a line for each field."""
    if as_json:
        _show_json(row)
    else:
        _show(None, [[field, as_text(value)] for field, value in row.items()], {})


def show_json_line(row: Row) -> None:
    """Print one row as a line of JSON."""
    click.echo(json.dumps(row, default=_jsonable, ensure_ascii=_is_narrow()))


def show_line(cells: Sequence[str]) -> None:
    """Print one row of an endless list, without alignment."""
    click.echo("  ".join(map(escaped, cells)))


def as_text(value: Any) -> str:
    """Format a value: ``-`` for null, intervals with units, times to the second."""
    if value is None:
        return "-"
    if isinstance(value, (list, tuple)):
        return ", ".join(as_text(item) for item in value) or "-"
    for kind, write in _WRITERS:
        if isinstance(value, kind):
            return write(value)
    return str(value)


_WRITERS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (bool, lambda value: "yes" if value else "no"),
    (timedelta, duration),
    (datetime, lambda value: value.isoformat(sep=" ", timespec="seconds")),
    (float, "{:.1f}".format),
)


def _show_json(data: Any) -> None:
    click.echo(json.dumps(data, default=_jsonable, ensure_ascii=_is_narrow(), indent=2))


def _is_narrow() -> bool:
    """Say whether stdout lacks characters, so that JSON must escape them."""
    return not (sys.stdout.encoding or "").lower().startswith("utf")


def _jsonable(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, date):  # a datetime too
        return value.isoformat()
    return str(value)


def _show_plain(lines: Sequence[Sequence[str]]) -> None:
    lines = [[escaped(cell) for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(padded).rstrip())


def _show(
    headings: Sequence[str] | None, lines: Sequence[Sequence[str]], styles: Mapping[str, str]
) -> None:
    plain = [headings, *lines] if headings else lines
    if not sys.stdout.isatty():
        _show_plain(plain)
        return

    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console, table = Console(), Table(show_header=headings is not None)
    columns = headings or ("field", "value")
    for heading, cells in zip(columns, zip(*lines, strict=True) if lines else columns, strict=True):
        # A column of names is never folded; the others are.
        widest = max(map(cell_len, cells)) if heading in NAMES and lines else None
        table.add_column(heading, overflow="fold", min_width=widest)
    for line in lines:
        row = (Text(escaped(cell, "\n")) for cell in line)  # Text: a name may look like markup
        table.add_row(*row, style=styles.get(line[0]))
    anywhere = console.options.update(width=WIDEST)
    if console.measure(table, options=anywhere).minimum > console.width:
        # The terminal wraps. A cell with several lines becomes one line.
        _show_plain([[cell.replace("\n", " ") for cell in line] for line in plain])
    else:
        console.print(table)
