"""A section's plots as SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.report import Plot, Section

SIZE = (8, 4.5)  # inches


def draw(section: Section, folder: Path) -> list[Path]:
    """Draw a section's plots; return their files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{section.case}-{number}.svg" for number in range(1, len(section.plots) + 1)]
    for plot, file in zip(section.plots, files, strict=True):
        _draw(plot, file)
    return files


def _draw(plot: Plot, file: Path) -> None:
    import matplotlib as mpl  # noqa: PLC0415  # only who draws needs it
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
