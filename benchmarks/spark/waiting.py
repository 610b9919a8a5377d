"""The latency from an insert to a stream with a trigger of one second."""

from __future__ import annotations

import time
from threading import Lock
from typing import TYPE_CHECKING, Any

from benchmarks.load.arrivals import parse
from benchmarks.load.cpu import Cpu
from benchmarks.load.latency import Load, Round, measure
from benchmarks.spark.database import QUEUE
from benchmarks.spark.streaming import TRIGGER, running

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from benchmarks.load.arrivals import Arrival
    from benchmarks.spark.database import QueueDatabase

CONSUMER = "waiting"
RATE = 100  # events/s


class Collected:
    """The events that foreachBatch has seen; it answers as a consumer's process does."""

    def __init__(self) -> None:
        """Start without events."""
        self._found: list[Arrival] = []
        self._lock = Lock()

    def take_in(self, frame: DataFrame, _epoch: int) -> None:
        """Collect a micro-batch: from here on an application has it."""
        rows = frame.collect()
        now = time.monotonic_ns()
        with self._lock:
            self._found += [(*parse(row[0]), now) for row in rows]

    def ask(self, question: str) -> Any:
        """Answer "count" and "take"."""
        with self._lock:
            if question == "count":
                return len(self._found)
            taken, self._found = self._found, []
            return taken


def wait(database: QueueDatabase, folder: str, seconds: float) -> Round:
    """Insert at a low rate; return the times in milliseconds."""
    collected = Collected()
    stream = database.spark.readStream.format("pgq").options(**database.queue(consumer=CONSUMER))
    frame = stream.schema("ev_data STRING").load()
    writer = frame.writeStream.foreachBatch(collected.take_in).trigger(processingTime=TRIGGER)
    with running(writer, folder):
        load = Load("pgqpy", database.dsn, QUEUE, RATE, seconds)
        return measure(load, collected, lambda: Cpu(lambda: 0))
