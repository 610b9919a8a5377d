"""``pgqpy demo``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from pgqpy.cli.options import connected

if TYPE_CHECKING:
    from pgqpy.cli.options import Target
    from pgqpy.demo.spark_step import Spark


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
    """Return what the demo needs of Spark, or what is missing."""
    from pgqpy.demo.spark_step import Spark
    from pgqpy.errors import MissingExtra
    from pgqpy.spark.needs import check_java, check_packages

    try:
        check_packages()
        check_java()
    except MissingExtra as exc:
        return Spark(str(exc), lambda _folder: {})
    from pgqpy.spark.pipeline_sums import branch_sums

    return Spark("", branch_sums)
