"""Registration of `format("pgq")` with a Spark session. Imports pyspark only when called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.spark import requirements

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HIDDEN_OPTIONS = "spark.sql.redaction.options.regex"  # plans hide the values of these options
OURS = "(?i:^dsn$)"


def register(spark: SparkSession) -> None:
    """Register `format("pgq")` with a session. Calling it twice is safe.

    From then on the session's plans hide the value of the option `dsn`.

    Raises:
        MissingExtra: pyspark is too old, or a package of the extra `spark` is missing.

        pgqpy.spark.register(spark)
        spark.readStream.format("pgq").option("queue", "orders").option("consumer", "lake").load()
    """
    requirements.check_packages()
    from pgqpy.spark.data_source import PgqDataSource  # noqa: PLC0415  # pyspark is installed: checked

    spark.dataSource.register(PgqDataSource)
    hidden = spark.conf.get(HIDDEN_OPTIONS) or ""
    if OURS not in hidden:
        spark.conf.set(HIDDEN_OPTIONS, f"(?:{hidden})|{OURS}" if hidden else OURS)
