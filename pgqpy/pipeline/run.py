"""The entry of the pipeline. Imports pyspark only when a pipeline runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.spark.session import check_classic, check_java, check_packages

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgqpy.pipeline.options import PipelineOptions


def run_pipeline(options: PipelineOptions, dsn: str, say: Callable[[str], None]) -> None:
    """Run a pipeline in the main thread until SIGTERM, SIGINT or, with `available_now`, its end.

    Args:
        options: what to read and where to write it.
        dsn: the queue's database; "" leaves it to libpq's PG* variables.
        say: called with each line of progress.

    Raises:
        MissingExtra: a package of the extra `spark` or Java is missing or too old.
        InvalidArgument: the environment or the master asks for Spark Connect.
        InvalidArgument: the schema is not a valid DDL text.
        QueueNotFound: no queue has this name.
        ConnectionFailed: the first connection failed. After a later loss the pipeline reconnects.
        PipelineFailed: the query ended with an error that a restart does not mend.
    """
    check_packages()
    check_classic(options.master)
    check_java()
    from pgqpy.pipeline.query import run_query  # noqa: PLC0415  # pyspark is installed: checked

    run_query(options, dsn, say)
