"""``pgqpy pipeline``: from a queue to files, on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pgqpy.cli.options import COMMAND_SETTINGS, connected

if TYPE_CHECKING:
    from pgqpy.cli.options import Target

FORMATS = ("parquet", "json", "console")


@click.group(context_settings=COMMAND_SETTINGS)
def pipeline() -> None:
    """Stream a queue's events to files, on Spark."""


def _interval(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    from pgqpy.spark.pipeline_plan import interval

    if value is not None:
        try:
            interval(value)
        except ValueError as exc:
            raise click.BadParameter(str(exc)) from exc
    return value


@pipeline.command()
@click.option("--queue", required=True, help="Read this queue.")
@click.option("--to", metavar="PATH", help="Folder to write to, of any kind that Spark knows.")
@click.option("--format", type=click.Choice(FORMATS), default="parquet", show_default=True)
@click.option("--schema", metavar="DDL", help="Columns of the JSON objects in the events' data.")
@click.option("--consumer", default="pipeline", show_default=True, help="Its subscription.")
@click.option("--checkpoint", metavar="DIR", help="Spark's own notes.  [default: PATH/_checkpoint]")
@click.option("--bad-to", metavar="DIR", help="Folder for bad records.  [default: PATH/_bad]")
@click.option("--once", is_flag=True, help="Write what is there, then end.")
@click.option(
    "--every", metavar="TIME", callback=_interval, help="As 500ms, 10s, 5min.  [default: 10s]"
)
@click.option(
    "--type", "types", multiple=True, metavar="TYPE", help="Events of this type only; give several."
)
@click.option(
    "--starting-offsets",
    metavar="WHERE",
    help="The first time: subscription, earliest, latest or '{\"tick\": N}'.",
)
@click.option(
    "--max-events",
    type=click.IntRange(1),
    help="Events in a micro-batch, about.  [default: 1000000]",
)
@click.option("--partitions", type=click.IntRange(1), help="Tasks of a micro-batch, at least.")
@click.option("--master", help="Spark's master.  [default: spark-submit's, else local[*]]")
@connected
def run(target: Target, **options: Any) -> None:
    """Write a queue's events to a folder, each exactly once, until SIGTERM or Ctrl-C.

    Start it again with the same command, and it goes on where it was. What does not fit the
    schema goes to the folder for bad records, with the reason. A column that is NOT NULL in the
    schema must be there. The first start registers the consumer.

    Example: pgqpy pipeline run --queue orders --to lake --schema 'id INT, total DECIMAL(10,2)'
    """
    from pgqpy.spark.needs import check_classic, check_java, check_packages
    from pgqpy.spark.pipeline_plan import Plan

    plan = Plan(**_given(options))
    check_packages()
    check_classic(plan.master)
    check_java()
    _run(plan, target.dsn)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given; UsageError where two do not go together."""
    given = {name: value for name, value in options.items() if value not in (None, False, ())}
    console = given["format"] == "console"
    if not console and "to" not in given:
        raise click.UsageError("--to is missing: name a folder, or take --format console")
    if console and given.keys() & {"to", "bad_to"}:
        raise click.UsageError(
            "--format console writes to the terminal: leave --to and --bad-to out"
        )
    if given.keys() >= {"once", "every"}:
        raise click.UsageError("--once and --every exclude each other")
    return given


def _run(plan: Any, dsn: str) -> None:
    from pgqpy.errors import InvalidArgument
    from pgqpy.spark.pipeline_query import run_pipeline

    try:
        run_pipeline(plan, dsn, _say)
    except InvalidArgument as exc:
        raise click.UsageError(str(exc)) from exc


def _say(text: str) -> None:
    click.echo(f"pipeline: {text}", err=True)
