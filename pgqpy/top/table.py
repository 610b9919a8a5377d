"""A table that keeps its cursor on the same row while the rows change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.text import Text
from textual.coordinate import Coordinate
from textual.widgets import DataTable

from pgqpy.top.columns import cells

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pgqpy.top.columns import Column


class LiveTable(DataTable[Text]):
    """A table of `Column`s. Its cells are texts, never markup."""

    def __init__(self, columns: tuple[Column, ...], **options: Any) -> None:
        """Take the columns; the first one stays in sight."""
        super().__init__(cursor_type="row", fixed_columns=1, **options)
        self._contents = columns
        self._shown: dict[str, list[str]] = {}

    def on_mount(self) -> None:
        """Add the columns."""
        for column in self._contents:
            heading = self._cell(column, column.heading)
            self.add_column(heading, width=cell_len(column.heading))

    def fill(self, rows: Iterable[tuple[str, Any]]) -> None:
        """Show rows, each with its key. Only cells that changed are written anew."""
        new = {key: cells(self._contents, row) for key, row in rows}
        self._widen(new.values())
        if list(new) == list(self._shown):
            self._update(new)
        else:
            self._replace(new)
        self._shown = new

    @property
    def chosen(self) -> str | None:
        """The key of the row under the cursor; None if the table is empty."""
        return (
            list(self._shown)[self.cursor_row] if self.is_valid_row_index(self.cursor_row) else None
        )

    def _widen(self, rows: Iterable[list[str]]) -> None:
        """Set the widths. Textual sets its own ones later, and may leave what is drawn as it is."""
        lines = [[each.heading for each in self._contents], *rows]
        for column, values in zip(self.ordered_columns, zip(*lines, strict=True), strict=True):
            column.width = max(map(cell_len, values))

    def _update(self, new: dict[str, list[str]]) -> None:
        for y, (key, row) in enumerate(new.items()):
            for x, (value, before) in enumerate(zip(row, self._shown[key], strict=True)):
                if value != before:
                    cell = self._cell(self._contents[x], value)
                    self.update_cell_at(Coordinate(y, x), cell, update_width=True)

    def _replace(self, new: dict[str, list[str]]) -> None:
        chosen, at = self.chosen, self.cursor_row
        self.clear()
        for key, row in new.items():
            cells_ = (self._cell(*each) for each in zip(self._contents, row, strict=True))
            self.add_row(*cells_, key=key)
        keys = list(new)
        self.move_cursor(row=keys.index(chosen) if chosen in new else min(at, len(keys) - 1))

    @staticmethod
    def _cell(column: Column, value: str) -> Text:
        return Text(value, justify="right" if column.is_number else "left")
