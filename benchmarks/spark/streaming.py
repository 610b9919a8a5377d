"""A stream into files under a steady load: how long its micro-batches take, first and last."""

from __future__ import annotations

import time
from contextlib import contextmanager
from datetime import datetime
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import pgqpy
from benchmarks import events
from benchmarks.figures import Wrong, verify
from benchmarks.load.children import child, module
from benchmarks.spark.database import QUEUE
from benchmarks.spark.reading import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from benchmarks.spark.database import QueueDatabase

SCHEMA = "ev_id BIGINT, ev_time TIMESTAMP, ev_type STRING, ev_data STRING"
CONSUMER = "lake"
TRIGGER = "1 second"
PATIENCE = 120.0  # seconds
WARM_UP = 5  # micro-batches that do not count
ROTATION = "1 minute"


class Point(NamedTuple):
    """One micro-batch: when it ended and how long it took (seconds), and its events."""

    at: float
    took: float
    events: int


class Sustained(NamedTuple):
    """The result of a load: the micro-batches, and how late the producer was."""

    points: list[Point]
    rate: float  # events/s, from the first insert to the last event in a file
    late: float  # seconds

    @property
    def ends(self) -> tuple[float, float]:
        """The seconds of a micro-batch at the beginning and at the end: medians of thirds."""
        took = [point.took for point in self.points]
        third = max(len(took) // 3, 1)
        return median(took[:third]), median(took[-third:])


@contextmanager
def running(writer: DataStreamWriter, folder: str) -> Iterator[StreamingQuery]:
    """Run a query for as long as the block lasts; it has done its first micro-batch by then."""
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").start()
    try:
        wait_until(query, lambda: query.lastProgress is not None)
        yield query
    finally:
        query.stop()


def wait_until(query: StreamingQuery, done: Callable[[], bool]) -> None:
    """Wait; Wrong if the query ended, or it takes longer than `PATIENCE`."""
    deadline = time.monotonic() + PATIENCE
    while not done():
        if query.exception() is not None or not query.isActive:
            raise Wrong(f"the query ended: {query.exception()}")
        if time.monotonic() > deadline:
            raise Wrong(f"the query has not read what was inserted {PATIENCE:.0f} s ago")
        time.sleep(0.05)


def sustain(database: QueueDatabase, folder: str, rate: int, seconds: float) -> Sustained:
    """Insert events at a rate and stream them into parquet files; Wrong unless all are there."""
    with pgqpy.connect(database.dsn) as client:
        client.set_queue_config(QUEUE, "rotation_period", ROTATION)
    stream = database.spark.readStream.format("pgq").options(**database.queue(consumer=CONSUMER))
    files = stream.schema(SCHEMA).load().writeStream.format("parquet")
    writer = files.option("path", f"{folder}/lake").trigger(processingTime=TRIGGER)
    flood = module("flood", database.dsn, QUEUE, rate, seconds)
    with running(writer, folder) as query:
        began = time.time()
        with child(*flood) as producer:
            wanted, late = producer.result(seconds + PATIENCE)
        wait_until(query, lambda: sum(point.events for point in points(query, began)) >= wanted)
        found = points(query, began)
    lake = database.spark.read.parquet(f"{folder}/lake")
    row = lake.selectExpr("count(*)", "count(distinct ev_id)", f"sum({NUMBERS})").head()
    verify("count, ids and sum in the files", row, (wanted, wanted, events.total(wanted)))
    return Sustained(found[WARM_UP:] or found, wanted / found[-1].at, late)


def points(query: StreamingQuery, began: float) -> list[Point]:
    """Return the micro-batches that had events."""
    return [_point(each, began) for each in query.recentProgress if each["numInputRows"] > 0]


def _point(progress: Any, began: float) -> Point:
    took = progress["durationMs"]["triggerExecution"] / 1000
    return Point(_seconds(progress["timestamp"]) + took - began, took, progress["numInputRows"])


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
