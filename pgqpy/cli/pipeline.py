"""``pgqpy pipeline``: stream a queue's events to files, with Spark."""

from __future__ import annotations

from typing import Any

import click

from pgqpy.cli import complete
from pgqpy.cli.options import Noun, Target, connected
from pgqpy.cli.output import say
from pgqpy.errors import InvalidArgument

FORMATS = ("parquet", "json", "console")


@click.group(cls=Noun)
def pipeline() -> None:
    """Stream a queue's events to files, with Spark."""


def _interval(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    from pgqpy.pipeline.options import spark_interval

    if value is not None:
        try:
            spark_interval(value)
        except ValueError as exc:
            raise click.BadParameter(str(exc)) from exc
    return value


@pipeline.command()
@click.option("--queue", required=True, shell_complete=complete.queues, help="The queue to read.")
@click.option("--to", metavar="PATH", help="Folder to write to: a path or URL that Spark supports.")
@click.option("--format", type=click.Choice(FORMATS), default="parquet", show_default=True)
@click.option("--schema", metavar="DDL", help="Columns of the JSON objects in the events' data.")
@click.option(
    "--consumer",
    default="pipeline",
    show_default=True,
    shell_complete=complete.consumers,
    help="Name of the subscription.",
)
@click.option(
    "--checkpoint", metavar="DIR", help="Spark's checkpoint.  [default: PATH/_checkpoint]"
)
@click.option("--bad-to", metavar="DIR", help="Folder for bad records.  [default: PATH/_bad]")
@click.option("--once", "available_now", is_flag=True, help="Write the available events, then end.")
@click.option(
    "--every", metavar="TIME", callback=_interval, help="500ms, 10s, 5min.  [default: 10s]"
)
@click.option(
    "--type", "types", multiple=True, metavar="TYPE", help="Read this type only; may be repeated."
)
@click.option(
    "--starting-offsets",
    metavar="WHERE",
    help="Where the first run starts: subscription, earliest, latest or '{\"tick\": N}'.",
)
@click.option(
    "--max-events",
    type=click.IntRange(1),
    help="Events per micro-batch, approximately.  [default: 1000000]",
)
@click.option("--partitions", type=click.IntRange(1), help="Minimum of tasks per micro-batch.")
@click.option("--master", help="Spark's master.  [default: spark-submit's, else local[*]]")
@connected
def run(target: Target, **options: Any) -> None:
    """Write a queue's events to a folder, each exactly once, until SIGTERM or Ctrl-C.

    The same command continues where the last run ended. Events that do not fit the schema go to
    the folder for bad records, with the reason; a NOT NULL column must be present. The first start
    registers the consumer.

    Example: pgqpy pipeline run --queue orders --to lake --schema 'id INT, total DECIMAL(10,2)'
    """
    from pgqpy.pipeline import PipelineOptions, run_pipeline

    try:
        run_pipeline(PipelineOptions(**_checked(options)), target.dsn, _say)
    except InvalidArgument as exc:
        raise click.UsageError(str(exc)) from exc


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were set; UsageError if two exclude each other."""
    chosen = {name: value for name, value in options.items() if value not in (None, False, ())}
    console = chosen["format"] == "console"
    if not console and "to" not in chosen:
        raise click.UsageError("--to is missing: name a folder, or use --format console")
    if console and chosen.keys() & {"to", "bad_to"}:
        raise click.UsageError("--format console writes to the terminal: remove --to and --bad-to")
    if chosen.keys() >= {"available_now", "every"}:
        raise click.UsageError("--once and --every exclude each other")
    return chosen


def _say(text: str) -> None:
    say(f"pipeline: {text}")
