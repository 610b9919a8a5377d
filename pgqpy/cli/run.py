"""``pgqpy ticker``, and ``pgqpy demo``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from pgqpy.cli.options import COMMAND_SETTINGS, connected, json_option, pass_target

if TYPE_CHECKING:
    from pgqpy.cli.options import Target
    from pgqpy.demo.lake import Spark


@click.group(context_settings=COMMAND_SETTINGS)
def ticker() -> None:
    """Run the daemon that ticks, retries and rotates, or see who does."""


@ticker.command("run")
@click.option("--dsn", "dsns", multiple=True, metavar="DSN", help="A database; give several.")
@click.option("--poll-interval", type=float, help="Seconds between looks while events come in.")
@click.option("--tick-interval", type=float, help="Seconds from a tick to the next look.")
@click.option("--idle-poll-interval", type=float, help="Seconds between looks while idle.")
@click.option("--retry-period", type=float, help="Seconds between moves of due retries.")
@click.option("--maint-period", type=float, help="Seconds between rotations and clean-ups.")
@click.option("--due-period", type=float, help="Seconds between checks of idle queues.")
@click.option("--gauge-period", type=float, help="Seconds between readings of lag for /metrics.")
@click.option("--health-limit", type=float, help="Seconds without a look that are unhealthy.")
@click.option("--http-host", help="Address of /healthz and /metrics.  [default: 127.0.0.1]")
@click.option("--http-port", type=int, help="Port of /healthz and /metrics; off without it.")
@click.option("--log-format", type=click.Choice(["console", "json"]))
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]))
@pass_target
@click.pass_context
def run(ctx: click.Context, target: Target, /, dsns: tuple[str, ...], **options: Any) -> None:
    """Tick, retry and maintain the queues of one or more databases, until SIGTERM or Ctrl-C.

    A second daemon stands by and takes over. Each option is also a variable, PGQPY_HTTP_PORT.

    Example: pgqpy ticker run --dsn postgresql://localhost/shop --http-port 9187
    """
    from pgqpy.settings import TickerSettings
    from pgqpy.ticker import run as run_ticker

    given = {name: value for name, value in options.items() if value is not None}
    settings = TickerSettings(**given, **_named(target, dsns))
    ctx.exit(run_ticker(settings))


@ticker.command("status")
@click.option("--dsn", "dsns", multiple=True, metavar="DSN", help="A database; give several.")
@json_option
@pass_target
@click.pass_context
def status(ctx: click.Context, target: Target, /, dsns: tuple[str, ...], *, as_json: bool) -> None:
    """Say who ticks one or more databases, and whether every queue gets its ticks.

    Exit code 1 if a queue is late, is left out, or has no ticker, or a database does not answer.
    Since when a ticker is connected is told to its own role and to pg_read_all_stats.

    Example: pgqpy ticker status --dsn postgresql://localhost/shop
    """
    from pgqpy.cli.ticking import show_status
    from pgqpy.settings import TickerSettings

    settings = TickerSettings(**_named(target, dsns))
    ctx.exit(0 if show_status(settings.databases, as_json=as_json) else 1)


def _named(target: Target, dsns: tuple[str, ...]) -> dict[str, Any]:
    """Return the settings that name the databases: the options, else what stands elsewhere."""
    if dsns:
        return {"dsns": dsns}
    return {"dsn": target.dsn} if target.dsn else {}


@click.command()
@click.option("--seconds", type=click.IntRange(2, 3600), default=15, show_default=True)
@click.option("--clients", type=click.IntRange(1, 256), default=4, show_default=True)
@connected
@click.pass_context
def demo(ctx: click.Context, target: Target, *, seconds: int, clients: int) -> None:
    """Run pgbench with events, a ticker and a consumer that is killed; check every balance.

    Where Java and pgqpy[spark] are there, Spark reads the same events into parquet at the end.

    Brings a PostgreSQL of its own (pip install 'pgqpy[embedded]'), whatever PGQPY_DSN says; with
    --dsn it uses yours, in a schema of its own. Exit code 1 if one event was lost or came twice.

    Example: pgqpy demo --seconds 30 --clients 8
    """
    from pgqpy.demo import run as run_demo

    # PGQPY_DSN is where the application is: only --dsn itself lets the demo in there.
    named = any(
        place.get_parameter_source("dsn") is ParameterSource.COMMANDLINE
        for place in (ctx, ctx.find_root())
    )
    dsn = target.dsn if named else None
    ctx.exit(run_demo(_spark(), dsn, seconds=seconds, clients=clients))


def _spark() -> Spark:
    """Return what the demo needs of Spark, or why it has to do without."""
    from pgqpy.demo.lake import Spark
    from pgqpy.errors import MissingExtra
    from pgqpy.spark.needs import check_java, check_packages

    try:
        check_packages()
        check_java()
    except MissingExtra as exc:
        return Spark(str(exc), lambda _folder: {})
    from pgqpy.spark.pipeline_sums import branch_sums

    return Spark("", branch_sums)
