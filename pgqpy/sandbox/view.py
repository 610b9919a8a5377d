"""Progress on stderr: a panel that changes in place, or without a terminal a line now and then."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Cells = Sequence[tuple[str, str]]  # the names of figures with their values as text

LINE_INTERVAL = 2.5  # seconds between two lines of figures


class View:
    """The display of a running command: lines, or a panel with sentences that scroll above it."""

    def __init__(self, command: str, console: Console, live: Live | None = None) -> None:
        """Write lines to `console`, or draw the panel on `live`, which is on that console."""
        self._command = command
        self._console = console
        self._live = live
        self._next = 0.0

    def say(self, text: str) -> None:
        """Show a sentence and keep it."""
        self._print(f"{self._command}: {text}")

    def show(self, elapsed: float, cells: Cells) -> None:
        """Show the figures after so many seconds: redraw the panel, or print a line if it is time.

        It is if the last line is some seconds old.
        """
        if self._live is not None:
            self._live.update(self._panel(elapsed, cells))
        elif elapsed >= self._next:
            self._next = elapsed + LINE_INTERVAL
            figures = "  ".join(f"{name} {value}" for name, value in cells)
            self._print(f"{self._command}: {elapsed:5.1f} s  {figures}")

    def close_panel(self) -> None:
        """Remove the panel: its next drawing would erase what is printed without the view."""
        if self._live is not None:
            self._live.stop()

    def _panel(self, elapsed: float, cells: Cells) -> Panel:
        table = Table.grid(padding=(0, 3))
        table.add_row(*(Text(name, style="dim") for name, _ in cells))
        table.add_row(*(Text(value, style="bold") for _, value in cells))
        return Panel(table, title=f"pgqpy {self._command}, {elapsed:.0f} s", expand=False)

    def _print(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=self._live is None)


@contextmanager
def open_view(command: str) -> Iterator[View]:
    """Open the display that fits stderr: a panel on a terminal, else lines."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield View(command, console)
        return
    with Live(console=console, transient=True, refresh_per_second=8) as live:
        yield View(command, console, live)


def duration(seconds: float) -> str:
    """Write a duration in milliseconds or seconds."""
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
