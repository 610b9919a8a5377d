"""The Spark session of a run, and the check of its requirements."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pgqpy.spark
from benchmarks.server import CannotRun
from pgqpy.errors import MissingExtra
from pgqpy.spark.session import check_java, check_packages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

JDBC = Path("/usr/share/java/postgresql.jar")
CORES = 2
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "4g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
}


def require(*, jdbc: bool) -> None:
    """Raise CannotRun unless Java and pyspark are installed, and JDBC if it takes part."""
    try:
        check_packages()
        check_java()
    except MissingExtra as exc:
        raise CannotRun(str(exc)) from exc
    if jdbc and not JDBC.exists():
        raise CannotRun(
            "PostgreSQL's JDBC driver is needed to compare with: "
            "apt-get install libpostgresql-jdbc-java"
        )


@contextmanager
def session(folder: str) -> Iterator[SparkSession]:
    """Run Spark in this process for as long as the block lasts; it may write into the folder."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  # the other cases do without

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else the python3 of the PATH
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("benchmarks")
    places = {"spark.local.dir": folder, "spark.sql.warehouse.dir": f"{folder}/warehouse"}
    drivers = {"spark.jars": str(JDBC)} if JDBC.exists() else {}
    for name, value in {**SETTINGS, **places, **drivers}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        spark.sparkContext.setLogLevel("OFF")
        pgqpy.spark.register(spark)
        yield spark
    finally:
        spark.stop()


def versions() -> str:
    """Return the versions that the figures depend on."""
    jdbc = f", {JDBC.resolve().name}" if JDBC.exists() else ""
    names = ("pyspark", "pyarrow", "adbc-driver-postgresql", "psycopg")
    return ", ".join(f"{name} {version(name)}" for name in names) + jdbc + _debian(JDBC)


def _debian(jar: Path) -> str:
    named = [link.stem for link in jar.parent.glob("postgresql-*.*.jar")]
    return f" ({', '.join(named)})" if named else ""
