"""Make format("pgq") known to a Spark session. Imports pyspark only when it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.spark import needs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make `format("pgq")` known to a session; twice does no harm.

    Raises:
        MissingExtra: pyspark is too old, or pyarrow is missing.

        pgqpy.spark.register(spark)
        spark.readStream.format("pgq").option("queue", "orders").option("consumer", "lake").load()
    """
    needs.check_packages()
    from pgqpy.spark.source import PgqSource  # noqa: PLC0415  # only now is it there for sure

    spark.dataSource.register(PgqSource)
