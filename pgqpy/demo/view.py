"""The demo's output: its progress on stderr, its result on stdout.

On a terminal the progress is a panel that changes in place, elsewhere a line every few seconds.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from rich import box
from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgqpy.demo.progress import Figures
    from pgqpy.demo.verdict import Result

LINE_INTERVAL = 2.5  # seconds between two lines of figures
SECOND = 1000  # milliseconds

PASSED = "verdict: passed, every event was processed exactly once"
FAILED = "verdict: FAILED"


class View(Protocol):
    """The display of a running demo."""

    def say(self, text: str) -> None:
        """Show a sentence and keep it."""

    def show(self, figures: Figures) -> None:
        """Show the current figures."""


class LineView:
    """A display of plain lines, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        """Write to `console`."""
        self._console = console
        self._next = 0.0

    def say(self, text: str) -> None:
        """Print the sentence."""
        self._print(f"demo: {text}")

    def show(self, figures: Figures) -> None:
        """Print the figures if the last line is some seconds old."""
        if figures.elapsed < self._next:
            return
        self._next = figures.elapsed + LINE_INTERVAL
        cells = "  ".join(f"{name} {value}" for name, value in describe(figures))
        self._print(f"demo: {figures.elapsed:5.1f} s  {cells}")

    def _print(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)


class PanelView:
    """A display with a panel that changes in place; sentences scroll above it."""

    def __init__(self, live: Live) -> None:
        """Draw on `live`."""
        self._live = live

    def say(self, text: str) -> None:
        """Print the sentence above the panel."""
        self._live.console.print(Text(f"demo: {text}"))

    def show(self, figures: Figures) -> None:
        """Redraw the panel."""
        table = Table.grid(padding=(0, 3))
        described = describe(figures)
        table.add_row(*(Text(name, style="dim") for name, _ in described))
        table.add_row(*(Text(value, style="bold") for _, value in described))
        title = f"pgqpy demo, {figures.elapsed:.0f} s"
        self._live.update(Panel(table, title=title, expand=False))


@contextmanager
def open_view() -> Iterator[View]:
    """Open the display that fits stderr: a panel on a terminal, else lines."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield LineView(console)
        return
    with Live(console=console, transient=True, refresh_per_second=8) as live:
        yield PanelView(live)


def describe(figures: Figures) -> list[tuple[str, str]]:
    """Return the names of the figures with their values as text."""
    return [
        ("events in", f"{figures.events:,}"),
        ("processed", f"{figures.processed:,}"),
        ("lag", duration(figures.lag)),
        ("tps", f"{figures.tps:,.0f}"),
        ("kills", str(figures.kills)),
    ]


def duration(seconds: float) -> str:
    """Write a duration in milliseconds or seconds."""
    if seconds < 1:
        return f"{seconds * SECOND:.1f} ms"
    return f"{seconds:.2f} s"


def print_result(result: Result) -> None:
    """Print the figures, the comparisons and the verdict."""
    console = Console(highlight=False)
    table = Table(box=box.ROUNDED, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in result_rows(result):
        table.add_row(name, Text(value, style="bold"))
    console.print(table)
    for comparison in result.comparisons:
        mark = ("  ok    ", "green") if comparison.right else ("  WRONG ", "bold red")
        console.print(Text.assemble(mark, comparison.text))
    console.print(Text(PASSED, "bold green") if result.passed else Text(FAILED, "bold red"))


def result_rows(result: Result) -> list[tuple[str, str]]:
    """Return the rows of the table of figures."""
    return [
        ("transactions", f"{result.transactions:,}"),
        ("events", f"{result.events:,}"),
        ("events/s", f"{result.rate:,.0f}"),
        ("latency p50, insert to processed", duration(result.latency_before_kill[0])),
        ("latency p99, insert to processed", duration(result.latency_before_kill[1])),
        ("latency p99, kill included", duration(result.latency[1])),
        ("kills survived", str(result.kills)),
    ]
