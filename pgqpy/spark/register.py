"""Make format("pgq") known to a Spark session. Imports pyspark only when it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.spark import requirements

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HIDDEN_OPTIONS = "spark.sql.redaction.options.regex"  # their values are left out of plans
OURS = "(?i:^dsn$)"


def register(spark: SparkSession) -> None:
    """Make `format("pgq")` known to a session; twice does no harm.

    Plans of the session then show the option `dsn` without its value.

    Raises:
        MissingExtra: pyspark is too old, or pyarrow is missing.

        pgqpy.spark.register(spark)
        spark.readStream.format("pgq").option("queue", "orders").option("consumer", "lake").load()
    """
    requirements.check_packages()
    from pgqpy.spark.data_source import PgqDataSource  # noqa: PLC0415  # only now is it there for sure

    spark.dataSource.register(PgqDataSource)
    _hide_dsn(spark)


def _hide_dsn(spark: SparkSession) -> None:
    """Add the option to those whose values plans do not show; what the user hides stays hidden."""
    hidden = spark.conf.get(HIDDEN_OPTIONS) or ""
    if OURS not in hidden:
        spark.conf.set(HIDDEN_OPTIONS, f"(?:{hidden})|{OURS}" if hidden else OURS)
