"""``pgqpy pipeline``: stream a queue's events to files or tables, with Spark."""

from __future__ import annotations

import re
from contextlib import ExitStack
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import click

from pgqpy.cli import complete
from pgqpy.cli.metrics_port import serving
from pgqpy.cli.options import Noun, Target, connected, parse_timedelta
from pgqpy.cli.output import say
from pgqpy.errors import InvalidArgument
from pgqpy.texts import noun

if TYPE_CHECKING:
    from datetime import timedelta

TABLES = ("delta", "iceberg")
TYPED = re.compile(r"[\w.]+:[A-Z]\w*[a-z]\w*")  # orders:Placed, and no DDL such as id:INT
FORMATS = ("parquet", "json", *TABLES, "console")


@click.group(cls=Noun)
def pipeline() -> None:
    """Stream a queue's events to files or tables, with Spark."""


def _interval(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    from pgqpy.pipeline.options import spark_interval

    if value is not None:
        try:
            spark_interval(value)
        except ValueError as exc:
            raise click.BadParameter(str(exc)) from exc
    return value


@pipeline.command()
@click.option(
    "--queue",
    required=True,
    shell_complete=complete.queues,
    help="The queue to read, or several: orders,refunds or shop.*",
)
@click.option(
    "--to", metavar="PATH", help="Folder or table to write to: a path or URL that Spark supports."
)
@click.option("--format", type=click.Choice(FORMATS), default="parquet", show_default=True)
@click.option("--catalog", metavar="NAME", help="Iceberg's, as pyiceberg's configuration names it.")
@click.option("--partition-by", metavar="COLUMN", help="Of a new table: a column, or day.")
@click.option("--evolve", type=click.Choice(["add"]), help="Add new columns to the table.")
@click.option(
    "--schema",
    metavar="DDL",
    help="Columns of the JSON objects in the events' data, or the module:Class of a typed event; "
    "infer: find them in the newest events.",
)
@click.option(
    "--rescue",
    is_flag=True,
    help="Keep the fields that the schema does not name, as JSON in ev_rescued.",
)
@click.option(
    "--capture",
    is_flag=True,
    help="The events are changes of captured tables: make columns of them.",
)
@click.option(
    "--consumer",
    default="pipeline",
    show_default=True,
    shell_complete=complete.consumers,
    help="Name of the subscription.",
)
@click.option(
    "--checkpoint",
    metavar="DIR",
    help="Spark's checkpoint; temporary for tables.  [default: PATH/_checkpoint, for tables none]",
)
@click.option("--bad-to", metavar="DIR", help="Folder for bad records.  [default: PATH/_bad]")
@click.option("--once", "available_now", is_flag=True, help="Write the available events, then end.")
@click.option(
    "--every", metavar="TIME", callback=_interval, help="500ms, 10s, 5min.  [default: 10s]"
)
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="TYPE",
    help="Read only this type, or those that begin so: order.*; may be repeated.",
)
@click.option(
    "--starting-offsets",
    metavar="WHERE",
    help="Where the first run starts: subscription, earliest, latest or '{\"orders\": N}'.",
)
@click.option(
    "--max-events",
    type=click.IntRange(1),
    help="Events per micro-batch, approximately.  [default: 1000000]",
)
@click.option("--partitions", type=click.IntRange(1), help="Minimum of tasks per micro-batch.")
@click.option("--metrics-host", help="Address of /metrics and /healthz.  [default: 127.0.0.1]")
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), help="Port of both.  [default: none]"
)
@click.option("--master", help="Spark's master.  [default: spark-submit's, else local[*]]")
@connected
def run(
    target: Target, *, metrics_host: str | None, metrics_port: int | None, **options: Any
) -> None:
    """Write a queue's events to a folder or table, each exactly once, until SIGTERM or Ctrl-C.

    The same command continues where the last run ended. Events that do not fit the schema go to
    the folder for bad records, with the reason; a NOT NULL column must be present. The first start
    registers the consumer.

    Example: pgqpy pipeline run --queue orders --to lake --schema 'id INT, total DECIMAL(10,2)'
    """
    from pgqpy.pipeline import PipelineOptions, run_pipeline
    from pgqpy.pipeline.metrics import PipelineMetrics

    metrics = PipelineMetrics()
    try:
        chosen = PipelineOptions(**_checked(options))
        with ExitStack() as stack:
            if metrics_port is not None:
                shown = serving(metrics.registry, metrics_host, metrics_port, _health)
                _say(f"metrics at http://{stack.enter_context(shown)}/metrics")
            run_pipeline(chosen, target.dsn, _say, metrics)
    except InvalidArgument as exc:
        raise click.UsageError(str(exc)) from exc


@pipeline.command()
@click.option("--format", type=click.Choice(TABLES), required=True)
@click.option("--to", metavar="PATH", required=True, help="Folder or table, as for run.")
@click.option("--catalog", metavar="NAME", help="Iceberg's, as for run.")
@click.option(
    "--older-than",
    metavar="TIME",
    default="1d",
    show_default=True,
    callback=parse_timedelta,
    help="Younger files may belong to a micro-batch that runs.",
)
@click.option("--dry-run", is_flag=True, help="Only count the files.")
def clean(*, older_than: timedelta, dry_run: bool, **place: Any) -> None:
    """Remove the files that a killed pipeline wrote to a table and never committed.

    Files of other writers stay, and files that a retained commit names.

    Example: pgqpy pipeline clean --format delta --to lake/orders
    """
    from pgqpy.pipeline import PipelineOptions, clean_tables

    try:
        found = clean_tables(PipelineOptions(queue="", **place), older_than, dry_run=dry_run)
    except InvalidArgument as exc:
        raise click.UsageError(str(exc)) from exc
    does = "would be removed" if dry_run else "removed"
    _say(f"{found.files:,} {noun(found.files, 'file')} {does}, {found.size:,} bytes")


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were set; UsageError if two exclude each other."""
    chosen = {name: value for name, value in options.items() if value not in (None, False, ())}
    if TYPED.fullmatch(chosen.get("schema", "")):
        from pgqpy.cli.event_schema import columns

        chosen["schema"] = columns(chosen["schema"])
    console = chosen["format"] == "console"
    if not console and "to" not in chosen:
        raise click.UsageError("--to is missing: name a folder, or use --format console")
    if console and chosen.keys() & {"to", "bad_to"}:
        raise click.UsageError("--format console writes to the terminal: remove --to and --bad-to")
    if chosen.keys() >= {"available_now", "every"}:
        raise click.UsageError("--once and --every exclude each other")
    return chosen


def _health() -> tuple[int, dict[str, Any]]:
    """Return the status of /healthz: a pipeline that cannot go on ends."""
    return HTTPStatus.OK, {"status": "ok"}


def _say(text: str) -> None:
    say(f"pipeline: {text}")
