"""Store the Java classes that Spark loads in an archive: `python spark_archive.py FILE`.

A Java process that maps the archive starts a Spark session in half the CPU time. The tests start
dozens; tests/support/spark.py holds the options. Without Java the file is not written.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from pgqpy.errors import MissingExtra
from pgqpy.spark.session import check_java, check_packages


def record(archive: Path) -> None:
    """Run queries of every kind in a Java process that writes its classes down when it ends."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  # check_packages() has run

    options = [
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Xlog:cds=off",
        "-Xlog:cds+dynamic=off",
    ]
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join([*options, f"-XX:ArchiveClassesAtExit={archive}"])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for name in ("host", "bindAddress"):
        builder = builder.config(f"spark.driver.{name}", "127.0.0.1")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    gateway = spark.sparkContext._gateway  # noqa: SLF001  # the only way to wait for its end
    with tempfile.TemporaryDirectory() as folder:
        stream = spark.readStream.format("rate").load().writeStream.format("parquet")
        stream = stream.option("path", f"{folder}/out").option("checkpointLocation", f"{folder}/in")
        stream.trigger(availableNow=True).start().awaitTermination()
        spark.read.parquet(f"{folder}/out").groupBy("value").count().collect()
        spark.range(10).rdd.map(tuple).count()
    spark.stop()
    assert gateway is not None  # noqa: S101  # there is one while Spark runs
    gateway.proc.stdin.close()
    gateway.proc.wait()


def main(path: str) -> None:
    """Write the archive, as a whole or not at all."""
    try:
        check_packages()
        check_java()
    except MissingExtra as exc:
        print(f"spark archive: not made: {exc}")
        return
    print("spark archive: storing the classes that Spark loads (half a minute, once)", flush=True)
    unfinished = Path(f"{path}.new")
    record(unfinished)
    unfinished.rename(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
