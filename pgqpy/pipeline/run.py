"""The entry of the pipeline. Imports pyspark only when a pipeline runs."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from pgqpy.errors import MissingExtra
from pgqpy.pipeline.options import refused
from pgqpy.spark.session import check_classic, check_java, check_packages

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from pgqpy.pipeline.metrics import PipelineMetrics
    from pgqpy.pipeline.options import PipelineOptions
    from pgqpy.pipeline.tables import Orphans

PACKAGES = {"delta": ("deltalake",), "iceberg": ("pyiceberg", "sqlalchemy")}


def check_table_packages(table_format: str) -> None:
    """Raise MissingExtra unless the packages of a format are installed."""
    for package in PACKAGES[table_format]:
        if find_spec(package) is None:
            raise MissingExtra(f'{package} is needed: pip install "pgqpy[spark,{table_format}]"')


def run_pipeline(
    options: PipelineOptions,
    dsn: str,
    say: Callable[[str], None],
    metrics: PipelineMetrics,
) -> None:
    """Run a pipeline in the main thread until SIGTERM, SIGINT or, with `available_now`, its end.

    Args:
        options: what to read and where to write it.
        dsn: the queue's database; "" leaves it to libpq's PG* variables.
        say: called with each line of progress.
        metrics: its metrics, which the caller shows.

    Raises:
        MissingExtra: a package of the extra `spark` or Java is missing or too old, or a package of
            the table's format is missing.
        InvalidArgument: the environment or the master asks for Spark Connect.
        InvalidArgument: the schema is not a valid DDL text, or the table does not fit the options.
        OffsetRefused: the table's offset is not a tick of this queue.
        QueueNotFound: no queue has this name.
        ConnectionFailed: the first connection failed. After a later loss the pipeline reconnects.
        PipelineFailed: the query ended with an error that a restart does not mend.
    """
    if options.catalog is not None and options.bad_to is None:
        raise refused("catalog", "it needs --bad-to, a folder for bad records")
    check_packages()
    if options.is_table:
        check_table_packages(options.format)
    check_classic(options.master)
    check_java()
    from pgqpy.pipeline.query import run_query  # noqa: PLC0415  # pyspark is installed: checked

    run_query(options, dsn, say, metrics)


def clean_tables(options: PipelineOptions, older_than: timedelta, *, dry_run: bool) -> Orphans:
    """Remove the files of killed pipelines from a table; see `tables.clean`.

    Args:
        options: its format, and where it is.
        older_than: younger files are left.
        dry_run: only count.

    Raises:
        MissingExtra: a package is missing.
        InvalidArgument: there is no table.
    """
    check_packages()
    check_table_packages(options.format)
    from pgqpy.pipeline.lake import clean_all  # noqa: PLC0415  # pyspark is installed: checked

    return clean_all(options, older_than, dry_run=dry_run)
