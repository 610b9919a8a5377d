"""The end of the demo, on stdout: a table and the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pgqpy.demo.view import duration

if TYPE_CHECKING:
    from pgqpy.demo.verdict import Result

PASSED = "verdict: passed, every event was processed exactly once"
FAILED = "verdict: FAILED"


def print_result(result: Result) -> None:
    """Print what was counted and measured, and the verdict."""
    console = Console(highlight=False)
    table = Table(box=box.ROUNDED, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in rows(result):
        table.add_row(name, Text(value, style="bold"))
    console.print(table)
    for check in result.checks:
        mark = ("  ok    ", "green") if check.right else ("  WRONG ", "bold red")
        console.print(Text.assemble(mark, check.text))
    console.print(Text(PASSED, "bold green") if result.passed else Text(FAILED, "bold red"))


def rows(result: Result) -> list[tuple[str, str]]:
    """Return the lines of the table."""
    return [
        ("transactions", f"{result.transactions:,}"),
        ("events", f"{result.events:,}"),
        ("events/s", f"{result.rate:,.0f}"),
        ("latency p50, insert to processed", duration(result.calm[0])),
        ("latency p99, insert to processed", duration(result.calm[1])),
        ("latency p99, kill included", duration(result.whole[1])),
        ("kills survived", str(result.kills)),
    ]
