"""`python -m benchmarks`: run cases, save their results, draw their plots. `make bench`."""

from __future__ import annotations

import sys
import time
import traceback
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import click

from benchmarks import cases, environment, markdown, peers, plots, records
from benchmarks.bench import Bench
from benchmarks.figures import Wrong
from benchmarks.report import Record
from benchmarks.server import CannotRun, running_server

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.bench import Length
    from benchmarks.report import Section

HERE = Path(__file__).parent
BUILD = HERE.parent / "build/benchmarks"
ROUNDS = {"smoke": 1, "default": 3, "long": 5}


@click.command()
@click.argument("wanted", metavar="[CASE]...", nargs=-1)
@click.option("--long", "length", flag_value="long", help="Minutes to hours a case.")
@click.option("--smoke", "length", flag_value="smoke", help="Seconds a case; peers may be missing.")
@click.option("--rounds", type=click.IntRange(min=1), help="How often each contestant runs.")
@click.option("--alone", is_flag=True, help="With --smoke: no peers, and the embedded server.")
@click.option(
    "--results",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of results.md and results/. [default: benchmarks; with --smoke: build/benchmarks]",
)
@click.option("--list", "listing", is_flag=True, help="Show the cases.")
@click.option(
    "--plots",
    "drawing",
    is_flag=True,
    help="Draw the plots of saved results into build/benchmarks/plots, and measure nothing.",
)
def main(
    *,
    wanted: tuple[str, ...],
    length: Length | None,
    rounds: int | None,
    alone: bool,
    results: Path | None,
    listing: bool,
    drawing: bool,
) -> None:
    """Compare pgqpy with its alternatives: run the usual cases, or the named ones."""
    length = length or "default"
    if alone and length != "smoke":
        raise click.UsageError("--alone compares nothing: it goes with --smoke only")
    unknown = set(wanted) - set(cases.names())
    if unknown:
        raise click.UsageError(f"no case {', '.join(sorted(unknown))}: --list shows them")
    if listing:
        for name in cases.names():
            click.echo(f"{name:<10}{cases.load(name).TITLE}")
        return
    if drawing:
        draw(wanted, (results or HERE) / "results", (results or BUILD) / "plots")
        return
    folder = results or (BUILD if length == "smoke" else HERE)
    chosen = [name for name in cases.names() if name in (wanted or cases.usual())]
    try:
        require(length)
        with running_server(smoke=length == "smoke", embedded=alone) as server:
            bench = Bench(server, length, rounds or ROUNDS[length], alone=alone)
            wrong = measure(bench, chosen, folder / "results")
    except CannotRun as exc:
        raise click.ClickException(str(exc)) from exc
    sys.exit(1 if wrong else 0)


def draw(wanted: Sequence[str], folder: Path, target: Path) -> None:
    """Draw the plots of the saved results: of all cases, or of the named ones."""
    if not peers.installed("matplotlib"):
        raise click.ClickException("matplotlib is needed: pip install --editable '.[dev,bench]'")
    for record in records.load(folder):
        if not wanted or record.section.case in wanted:
            for file in plots.draw(record.section, target):
                click.echo(file)


def require(length: Length) -> None:
    """Raise CannotRun if a peer from PyPI is missing, unless the run is a smoke."""
    missing = [name for name in peers.FROM_PYPI if not peers.installed(name)]
    if missing and length != "smoke":
        raise CannotRun(f"{', '.join(missing)} is needed: pip install --editable '.[dev,bench]'")


def measure(bench: Bench, chosen: Sequence[str], folder: Path) -> list[str]:
    """Run the cases; return the names of those that failed."""
    described, wrong = environment.describe(bench.server), []
    for name in chosen:
        bench.case = name
        began, when = time.monotonic(), datetime.now(timezone.utc)
        try:
            section = cases.load(name).run(bench)
        except CannotRun:
            raise
        except Exception as exc:  # noqa: BLE001  # the other cases are worth their figures
            wrong.append(name)
            bench.say(f"WRONG: {exc}" if isinstance(exc, Wrong) else traceback.format_exc())
            continue
        record = Record(
            section,
            when=f"{when:%Y-%m-%d %H:%M} UTC",
            commit=environment.commit(),
            length=bench.length,
            rounds=bench.rounds,
            seconds=time.monotonic() - began,
            environment=described,
        )
        records.save(record, folder)
        tell(bench, section, record.seconds)
    click.echo(f"results: {folder.parent / 'results.md'}")
    if wrong:
        click.echo(f"wrong: {', '.join(wrong)}", err=True)
    return wrong


def tell(bench: Bench, section: Section, seconds: float) -> None:
    """Say on standard error which targets a case met."""
    for target in section.targets:
        met = "met   " if target.met else "MISSED"
        bench.say(f"{met} {target.text}: {markdown.number(target.got)}, wanted {target.wanted}")
    bench.say(f"took {seconds:.0f} s")


if __name__ == "__main__":
    main()
