"""The output of the demo while it runs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.live import Live

from pgqpy.demo.verdict import Figures, describe
from pgqpy.sandbox import View, duration

FIGURES = describe(Figures(events=1234, processed=1200, lag=0.012, tps=411.7, kills=1))


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "0.0 ms"), (0.0049, "4.9 ms"), (1.0, "1.00 s"), (12.345, "12.35 s")]
)
def test_a_duration_has_a_unit_that_suits_it(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_without_a_terminal_there_is_a_line_every_few_seconds() -> None:
    console = Console(file=io.StringIO())
    lines = View("demo", console)
    lines.say("hello")
    for tenths in range(60):
        lines.show(tenths / 10, FIGURES)
    assert console.file.getvalue().splitlines() == [  # type: ignore[attr-defined]  # a StringIO
        "demo: hello",
        "demo:   0.0 s  events in 1,234  processed 1,200  lag 12.0 ms  tps 412  kills 1",
        "demo:   2.5 s  events in 1,234  processed 1,200  lag 12.0 ms  tps 412  kills 1",
        "demo:   5.0 s  events in 1,234  processed 1,200  lag 12.0 ms  tps 412  kills 1",
    ]


def test_on_a_terminal_a_panel_shows_the_figures() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with Live(console=console, auto_refresh=False) as live:
        panels = View("demo", console, live)
        panels.say("hello")
        panels.show(3.0, FIGURES)
    shown = console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
    for text in ("demo: hello", "pgqpy demo, 3 s", "events in", "1,234", "12.0 ms", "412"):
        assert text in shown
