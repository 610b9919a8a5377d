"""``pgqpy demo``."""

from __future__ import annotations

import click

from pgqpy.cli.options import Target, named_dsn, on_trial
from pgqpy.errors import MissingExtra


@click.command()
@click.option("--seconds", type=click.IntRange(2, 3600), default=15, show_default=True)
@click.option("--clients", type=click.IntRange(1, 256), default=4, show_default=True)
@click.option(
    "--dashboard", is_flag=True, help="Show the demo in a browser; on a terminal until Ctrl-C."
)
@on_trial
@click.pass_context
def demo(ctx: click.Context, target: Target, *, seconds: int, clients: int, dashboard: bool) -> int:
    """Insert events with pgbench, kill one of two workers half way, then compare every balance.

    If Java and pgqpy[spark] are installed, Spark reads the same events into parquet at the end.

    The demo starts a temporary PostgreSQL (pip install 'pgqpy[embedded]') and ignores PGQPY_DSN.
    With --dsn it uses that database, in a schema pgqpy_demo. Exit code 1 if an event was lost or
    processed twice.

    Example: pgqpy demo --seconds 30 --clients 8
    """
    from pgqpy.demo import Options
    from pgqpy.demo import run as run_demo

    if dashboard:
        from pgqpy.dashboard import check_packages

        check_packages()

    dsn = named_dsn(ctx, target)
    return run_demo(Options(_missing_for_spark(), dsn, seconds, clients, dashboard))


def _missing_for_spark() -> str:
    """Return how to install what Spark lacks; empty if it can run. The demo may not import it."""
    from pgqpy.spark.session import check_java, check_packages

    try:
        check_packages()
        check_java()
    except MissingExtra as exc:
        return str(exc)
    return ""
