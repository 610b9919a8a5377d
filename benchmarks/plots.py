"""A section's plots as SVG."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.report import Plot, Section

SIZE = (8, 4.5)  # inches


def draw(section: Section, folder: Path) -> list[str]:
    """Draw a section's plots into files; return their names. None without matplotlib (a smoke)."""
    if not find_spec("matplotlib"):
        return []
    names = [
        f"{section.case}.svg" if number == 0 else f"{section.case}-{number + 1}.svg"
        for number in range(len(section.plots))
    ]
    for plot, name in zip(section.plots, names, strict=True):
        _draw(plot, folder / name)
    return names


def _draw(plot: Plot, file: Path) -> None:
    import matplotlib as mpl  # noqa: PLC0415  # a smoke goes without
    from matplotlib.figure import Figure  # noqa: PLC0415  # as above

    # The same figures make the same file: nothing random, no date in it.
    with mpl.rc_context({"svg.hashsalt": "pgqpy", "svg.fonttype": "none"}):
        figure = Figure(figsize=SIZE, layout="constrained")
        axes = figure.add_subplot()
        for name, points in plot.series.items():
            axes.plot([x for x, _ in points], [y for _, y in points], ".-", label=name)
        axes.set(
            title=plot.title,
            xlabel=plot.x_label,
            ylabel=plot.y_label,
            xscale="log" if plot.log_x else "linear",
            yscale="log" if plot.log_y else "linear",
        )
        if not plot.log_y:
            axes.set_ylim(bottom=0)
        axes.grid(visible=True, alpha=0.3)
        axes.legend()
        figure.savefig(file, format="svg", metadata={"Date": None})
