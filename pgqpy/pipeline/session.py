"""The Spark session of a pipeline."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgqpy.pipeline.options import PipelineOptions

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",  # ev_date is the same wherever the pipeline runs
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # other readers expect it
    "spark.ui.showConsoleProgress": "false",
    "spark.api.mode": "classic",
}


@contextmanager
def spark_session(options: PipelineOptions) -> Iterator[SparkSession]:
    """Yield a new session, or the one that spark-submit prepared; stop it at the end.

    No setting may contain a secret: PySpark passes every setting to Java as an argument.
    """
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # then Spark's own files configure it
    builder = SparkSession.builder.appName(f"pgqpy pipeline {options.queue}")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    if options.master:
        builder = builder.master(options.master)
    if not submitted:
        # The default is the first python3 on PATH, which may lack pgqpy.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = builder.getOrCreate()
    if not submitted and not os.environ.get("PGQPY_DEBUG"):
        spark.sparkContext.setLogLevel("OFF")  # errors are reported in one line
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
    try:
        yield spark
    finally:
        spark.stop()
