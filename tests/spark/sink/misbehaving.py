"""A driver that streams text files into the queue `q`, and misbehaves where it is told to.

`python misbehaving.py FOLDER`: each file of FOLDER/in is an epoch. The database is PGQPY_DSN's.
GATED_EPOCH: after its commit the driver waits at the lock GATE_KEY, before Spark notes the commit.
FAILING_EPOCH: one of its tasks fails when it has written, the first time.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from pyspark import TaskContext
from pyspark.sql import SparkSession

from pgqpy.spark.data_source import PgqDataSource
from pgqpy.spark.sink.writers import StreamWriter

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

GATE_KEY = 4711
GATE = "select pg_advisory_lock_shared(%s)"


class Misbehaving(StreamWriter):
    """The sink's writer, with the two faults."""

    def write(self, iterator: Any) -> Any:
        message = super().write(iterator)
        context = TaskContext.get()
        assert context is not None
        assert message.write_id is not None
        failing = str(message.write_id.epoch) == os.environ.get("FAILING_EPOCH")
        if failing and context.partitionId() == 0 and context.attemptNumber() == 0:
            raise RuntimeError("the first attempt fails after it has written")
        return message

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803  # Spark's
        super().commit(messages, batchId)
        if str(batchId) == os.environ.get("GATED_EPOCH"):
            with psycopg.connect(os.environ["PGQPY_DSN"]) as connection:
                connection.execute(GATE, [GATE_KEY])


class Source(PgqDataSource):
    """format("misbehaving")."""

    @classmethod
    def name(cls) -> str:
        return "misbehaving"

    def streamWriter(self, schema: StructType, overwrite: bool) -> Misbehaving:  # noqa: N802  # Spark's
        return Misbehaving(self.options, schema)


def main(folder: Path) -> None:
    """Stream what there is, and end."""
    builder = SparkSession.builder.master("local[2,3]").config("spark.ui.enabled", "false")
    for name, value in {"driver.host": "127.0.0.1", "local.dir": str(folder / "scratch")}.items():
        builder = builder.config(f"spark.{name}", value)
    spark = builder.getOrCreate()
    spark.dataSource.register(Source)
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder / "in"))
    events = lines.selectExpr("'line' as type", "value as data").repartition(2)
    writer = events.writeStream.format("misbehaving").option("queue", "q")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
