"""The demo's output: its progress on stderr, its result on stdout.

On a terminal the progress is a panel that changes in place, elsewhere a line every few seconds.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from rich import box
from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgqpy.demo.verdict import Result

LINE_INTERVAL = 2.5  # seconds between two lines of figures

PASSED = "verdict: passed, every event was processed exactly once"
FAILED = "verdict: FAILED"


class Figures(NamedTuple):
    """The progress of the demo at one moment."""

    elapsed: float  # seconds since pgbench began
    events: int  # inserted
    processed: int
    lag: float  # seconds
    tps: float  # transactions per second, each inserts an event
    kills: int


class View:
    """The display of a running demo: lines, or a panel with sentences that scroll above it."""

    def __init__(self, console: Console, live: Live | None = None) -> None:
        """Write lines to `console`, or draw the panel on `live`, which is on that console."""
        self._console = console
        self._live = live
        self._next = 0.0

    def say(self, text: str) -> None:
        """Show a sentence and keep it."""
        self._print(f"demo: {text}")

    def show(self, figures: Figures) -> None:
        """Show the figures: redraw the panel, or print a line if the last is some seconds old."""
        if self._live is not None:
            self._live.update(panel(figures))
        elif figures.elapsed >= self._next:
            self._next = figures.elapsed + LINE_INTERVAL
            cells = "  ".join(f"{name} {value}" for name, value in describe(figures))
            self._print(f"demo: {figures.elapsed:5.1f} s  {cells}")

    def _print(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=self._live is None)


@contextmanager
def open_view() -> Iterator[View]:
    """Open the display that fits stderr: a panel on a terminal, else lines."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield View(console)
        return
    with Live(console=console, transient=True, refresh_per_second=8) as live:
        yield View(console, live)


def panel(figures: Figures) -> Panel:
    """Draw the figures, each below its name."""
    table = Table.grid(padding=(0, 3))
    described = describe(figures)
    table.add_row(*(Text(name, style="dim") for name, _ in described))
    table.add_row(*(Text(value, style="bold") for _, value in described))
    return Panel(table, title=f"pgqpy demo, {figures.elapsed:.0f} s", expand=False)


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
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


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
        ("transactions", f"{result.outcome.transactions:,}"),
        ("events", f"{result.events:,}"),
        ("events/s", f"{result.events / result.outcome.seconds:,.0f}"),
        ("latency p50, insert to processed", duration(result.latency_before_kill[0])),
        ("latency p99, insert to processed", duration(result.latency_before_kill[1])),
        ("latency p99, kill included", duration(result.latency[1])),
        ("kills survived", str(result.outcome.kills)),
    ]
