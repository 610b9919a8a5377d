"""What the demo shows while it runs: a live panel on a terminal, lines elsewhere. On stderr."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgqpy.demo.gauge import Figures

LINE_INTERVAL = 2.5  # seconds between the figures where there is no terminal
SECOND = 1000  # milliseconds


class View(Protocol):
    """Somewhere to show what happens."""

    def say(self, text: str) -> None:
        """Show a sentence that stays."""

    def show(self, figures: Figures) -> None:
        """Show the figures of this moment."""


class Lines:
    """Plain lines, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        """Write to `console`."""
        self._console = console
        self._next = 0.0

    def say(self, text: str) -> None:
        """Print the sentence."""
        self._print(f"demo: {text}")

    def show(self, figures: Figures) -> None:
        """Print the figures, every few seconds only."""
        if figures.elapsed < self._next:
            return
        self._next = figures.elapsed + LINE_INTERVAL
        cells = "  ".join(f"{name} {value}" for name, value in describe(figures))
        self._print(f"demo: {figures.elapsed:5.1f} s  {cells}")

    def _print(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)


class Panels:
    """A panel that changes in place; sentences scroll by above it."""

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
    """Choose by whether stderr is a terminal."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield Lines(console)
        return
    with Live(console=console, transient=True, refresh_per_second=8) as live:
        yield Panels(live)


def describe(figures: Figures) -> list[tuple[str, str]]:
    """Return the names and texts of the figures."""
    return [
        ("events in", f"{figures.events:,}"),
        ("processed", f"{figures.processed:,}"),
        ("lag", duration(figures.lag)),
        ("tps", f"{figures.tps:,.0f}"),
        ("kills", str(figures.kills)),
    ]


def duration(seconds: float) -> str:
    """Write a time with a unit that suits it."""
    if seconds < 1:
        return f"{seconds * SECOND:.1f} ms"
    return f"{seconds:.2f} s"
