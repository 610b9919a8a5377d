"""The demo's figures while it runs, and its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pgqpy.sandbox.view import duration

if TYPE_CHECKING:
    from pgqpy.demo.verdict import Result

PASSED = "verdict: passed, every event was processed exactly once"
FAILED = "verdict: FAILED"


class Figures(NamedTuple):
    """The progress of the demo at one moment."""

    events: int  # inserted
    processed: int
    lag: float  # seconds
    tps: float  # transactions per second, each inserts an event
    kills: int


def describe(figures: Figures) -> list[tuple[str, str]]:
    """Return the names of the figures with their values as text."""
    return [
        ("events in", f"{figures.events:,}"),
        ("processed", f"{figures.processed:,}"),
        ("lag", duration(figures.lag)),
        ("tps", f"{figures.tps:,.0f}"),
        ("kills", str(figures.kills)),
    ]


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
        ("latency p50, before the kill", duration(result.latency_before_kill[0])),
        ("latency p99, before the kill", duration(result.latency_before_kill[1])),
        ("latency p99, of the whole run", duration(result.latency[1])),
        ("kills survived", str(result.outcome.kills)),
    ]
