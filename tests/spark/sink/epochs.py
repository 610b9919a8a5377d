"""The sink's writers, called as Spark calls them: pickled, in any order, some twice or never."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StructType

from pgqpy.spark.sink.writers import BATCH_ID, QUERY_ID, StreamWriter, TaskMessage

SCHEMA = StructType().add("type", "string").add("data", "string")
ARROW = pa.schema([("type", pa.string()), ("data", pa.string())])
WAITING = "select count(*) from pgq.stage where stage_released_by is null"


def batches(*datas: str | None) -> list[pa.RecordBatch]:
    """Return one batch of Arrow for each text, as Spark would."""
    return [pa.record_batch([["t"], [data]], schema=ARROW) for data in datas]


class Epoch:
    """One epoch of a query: tasks on executors, the commit in another process of the driver."""

    def __init__(self, options: dict[str, str], query: str, number: int) -> None:
        self.options, self.query, self.number = options, query, number

    def task(self, *datas: str | None) -> TaskMessage:
        """Write one row for each text, and return what the driver gets."""
        return self.write(batches(*datas))

    def row(self, **columns: str) -> TaskMessage:
        """Write one row with these columns."""
        schema = StructType()
        for name in columns:
            schema.add(name, "string")
        found = pa.RecordBatch.from_pylist([columns])
        return self.write([found], schema)

    def write(self, found: Any, schema: StructType = SCHEMA) -> TaskMessage:
        """Write batches of Arrow."""
        writer = pickle.loads(pickle.dumps(StreamWriter(self.options, schema)))
        context = TaskContext._getOrCreate()
        context._localProperties = {QUERY_ID: self.query, BATCH_ID: str(self.number)}
        try:
            return pickle.loads(pickle.dumps(writer.write(iter(found))))
        finally:
            TaskContext._taskContext = None  # a session cannot start inside a task

    def commit(self, *messages: TaskMessage | None) -> None:
        """Commit, by a writer that is made for it."""
        StreamWriter(self.options, SCHEMA).commit(messages, self.number)

    def abort(self, *messages: TaskMessage | None) -> None:
        """Abort, by a writer that is made for it."""
        StreamWriter(self.options, SCHEMA).abort(messages, self.number)
