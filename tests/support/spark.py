"""How the tests start Spark: quickly, for processes that live for a minute.

The archive of Spark's classes is made by tools/spark_archive.py; Java starts without it too.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
ARCHIVE = Path(sys.prefix) / "spark.jsa"
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
DRIVER = "-Dspark.ui.enabled=false -Dspark.sql.shuffle.partitions=2"  # where a test says no more

SETTINGS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stopTimeout": "30s",
    # The default one starts `readlink` four times for each file of a checkpoint.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
}


def start_spark_quickly() -> None:
    """Set the environment of every driver, master and worker that this process starts."""
    archive = f" -XX:SharedArchiveFile={ARCHIVE} -Xlog:cds=off" if ARCHIVE.exists() else ""
    os.environ["SPARK_LAUNCHER_OPTS"] = JAVA
    os.environ["SPARK_DAEMON_JAVA_OPTS"] = JAVA + archive
    os.environ["SPARK_SUBMIT_OPTS"] = f"{JAVA}{archive} {DRIVER}"
    # Without it Spark starts the python3 of the PATH.
    os.environ["PYSPARK_PYTHON"] = str(HERE / "spark_python.sh")
    os.environ["SPARK_TESTS_PYTHON"] = sys.executable


@contextmanager
def session(folder: Path) -> Iterator[SparkSession]:
    """Run a session on local[2] in this process, with the source registered."""
    from pyspark.sql import SparkSession

    from pgqpy.spark import register

    builder = SparkSession.builder.master("local[2]").appName("tests")
    places = {"spark.local.dir": str(folder), "spark.sql.warehouse.dir": str(folder / "warehouse")}
    for name, value in {**SETTINGS, **places}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    register(session)
    yield session
    session.stop()
