"""``pgqpy ticker``: run the daemon, or show its status."""

from __future__ import annotations

from typing import Any

import click

from pgqpy.cli.options import Target, json_option, pass_target


@click.group()
def ticker() -> None:
    """Run the daemon that ticks, retries and rotates, or show its status."""


@ticker.command("run")
@click.option("--dsn", "dsns", multiple=True, metavar="DSN", help="A database; may be repeated.")
@click.option("--poll-interval", type=float, help="Seconds between polls while events come in.")
@click.option("--tick-interval", type=float, help="Seconds from a tick to the next poll.")
@click.option("--idle-poll-interval", type=float, help="Seconds between polls while idle.")
@click.option("--retry-period", type=float, help="Seconds between moves of due retries.")
@click.option("--maint-period", type=float, help="Seconds between rotations.")
@click.option("--due-period", type=float, help="Seconds between checks of idle queues.")
@click.option("--gauge-period", type=float, help="Seconds between readings of lag for /metrics.")
@click.option("--health-limit", type=float, help="Seconds without a poll before /healthz fails.")
@click.option("--cron/--no-cron", default=None, help="Whether cron entries fire.  [default: yes]")
@click.option("--http-host", help="Address of /healthz and /metrics.  [default: 127.0.0.1]")
@click.option("--http-port", type=int, help="Port of both.  [default: none]")
@click.option("--log-format", type=click.Choice(["console", "json"]))
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]))
@pass_target
def run(target: Target, /, dsns: tuple[str, ...], **options: Any) -> int:
    """Tick, retry and maintain the queues of one or more databases, until SIGTERM or Ctrl-C.

    A second daemon stands by and takes over. Each option is also a variable, such as
    PGQPY_HTTP_PORT.

    Example: pgqpy ticker run --dsn postgresql://localhost/shop --http-port 9187
    """
    from pgqpy.ticker import run as run_ticker
    from pgqpy.ticker.settings import TickerSettings

    set_options = {name: value for name, value in options.items() if value is not None}
    return run_ticker(TickerSettings(**set_options, **_databases(target, dsns)))


@ticker.command("status")
@click.option("--dsn", "dsns", multiple=True, metavar="DSN", help="A database; may be repeated.")
@json_option
@pass_target
def status(target: Target, /, dsns: tuple[str, ...], *, as_json: bool) -> int:
    """Show the ticker of each database, and whether every queue gets its ticks.

    Exit code 1 if a queue is late, is left out or has no ticker, or a database does not answer.
    The column since is visible to the ticker's own role and to pg_read_all_stats.

    Example: pgqpy ticker status --dsn postgresql://localhost/shop
    """
    from pgqpy.cli.ticker_status import show_status
    from pgqpy.ticker.settings import TickerSettings

    settings = TickerSettings(**_databases(target, dsns))
    return 0 if show_status(settings.databases, as_json=as_json) else 1


def _databases(target: Target, dsns: tuple[str, ...]) -> dict[str, Any]:
    """Return the settings that name the databases; none if no option names one."""
    if dsns:
        return {"dsns": dsns}
    return {"dsn": target.dsn} if target.dsn else {}
