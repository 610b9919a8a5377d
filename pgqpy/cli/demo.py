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
    """Insert events with pgbench, kill their consumer half way, then compare every balance.

    If Java and pgqpy[spark] are installed, Spark reads the same events into parquet at the end.

    The demo starts a temporary PostgreSQL (pip install 'pgqpy[embedded]') and ignores PGQPY_DSN.
    With --dsn it uses that database, in a schema pgqpy_demo. Exit code 1 if an event was lost or
    processed twice.

    Example: pgqpy demo --seconds 30 --clients 8
    """
    from pgqpy.demo import run as run_demo

    # PGQPY_DSN names the application's database; the demo uses it only if --dsn says so.
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
    from pgqpy.spark.requirements import check_java, check_packages

    try:
        check_packages()
        check_java()
    except MissingExtra as exc:
        return Spark(str(exc), lambda _folder: {})
    return Spark("", _branch_sums)


def _branch_sums(folder: str) -> dict[int, tuple[int, int]]:
    """Read the parquet files without Spark: the number of transfers and their sum, by branch."""
    import pyarrow.dataset as ds

    lake = ds.dataset(folder, format="parquet", partitioning="hive")
    transfers = lake.to_table(columns=["branch", "delta"])
    sums = transfers.group_by("branch").aggregate([("delta", "count"), ("delta", "sum")])
    return {row["branch"]: (row["delta_count"], row["delta_sum"]) for row in sums.to_pylist()}
