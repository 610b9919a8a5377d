"""Read every event: the queue's source, and Spark's JDBC source with partitions made by hand."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import psycopg
from pyspark.sql import Observation, functions

import pgqpy
from benchmarks import events
from benchmarks.figures import Figure, interleave, verify
from benchmarks.spark.database import QUEUE, by_queue
from benchmarks.spark.session import CORES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

    from benchmarks.spark.database import QueueDatabase

PGQ, WITH_TICK, JDBC = "pgqpy", "pgqpy with tick_id", "JDBC"
STREAM = "pgqpy, a stream until it has all"
COLUMNS = "ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4"  # noqa: E501  # as one writes it
SCHEMA = (
    "ev_id BIGINT, ev_time TIMESTAMP, ev_txid BIGINT, ev_retry INT, ev_type STRING, "
    "ev_data STRING, ev_extra1 STRING, ev_extra2 STRING, ev_extra3 STRING, ev_extra4 STRING"
)
FETCH = 10_000  # rows; Spark's default keeps them all in memory, and takes half as long again
WARM_UP = 2  # rounds that do not count: Java's compiler is still at work
COMMIT, TICKS = 1000, 10
HALF = """select percentile_disc(0.5) within group (order by ev_txid) from pgq.event_1"""
NOOP, PARSED = "noop", "from_json, Parquet"
SINKS = (NOOP, "Parquet", PARSED)
JSON = "n STRING, data STRING"
NUMBERS = "cast(get_json_object(ev_data, '$.n') as long)"


def fill(dsn: str, count: int) -> None:
    """Put events into a new queue: transactions of 1,000, ten ticks."""
    made = events.make(count)
    with pgqpy.connect(dsn) as client:
        client.create_queue(QUEUE)
        for number, chunk in enumerate(events.chunks(made, count, COMMIT), 1):
            client.insert_events(QUEUE, chunk)
            if number % max(count // COMMIT // TICKS, 1) == 0:
                client.tick_queue(QUEUE)
        client.tick_queue(QUEUE)
        client.connection.execute("vacuum analyze")


def contestants(database: QueueDatabase, *, jdbc: bool) -> dict[str, Callable[[], DataFrame]]:
    """Return the functions that make a frame, of two partitions each."""
    found: dict[str, Callable[[], DataFrame]] = {
        PGQ: partial(by_queue, database, SCHEMA),
        WITH_TICK: partial(by_queue, database, f"{SCHEMA}, tick_id BIGINT"),
    }
    if jdbc:
        found[JDBC] = partial(by_jdbc, database, predicates(database))
    return found


def predicates(database: QueueDatabase) -> list[str]:
    """Return conditions for two halves of the events, as a user who knows the table would write."""
    with psycopg.connect(database.dsn) as connection:
        (half,) = connection.execute(HALF).fetchone() or (0,)
    return [f"ev_txid <= {half}", f"ev_txid > {half}"]


def by_jdbc(database: QueueDatabase, halves: list[str]) -> DataFrame:
    """Read the queue's tables like any other tables."""
    properties = database.properties(fetchsize=FETCH)
    table = f"(select {COLUMNS} from pgq.event_1) e"
    return database.spark.read.jdbc(database.url, table, predicates=halves, properties=properties)


def measure(
    database: QueueDatabase,
    frames: Mapping[str, Callable[[], DataFrame]],
    count: int,
    rounds: int,
    folder: str,
    say: Callable[[str], None],
) -> dict[str, dict[str, Figure]]:
    """Return events a second of each, for each sink, after a check of the rows."""
    for name, frame in frames.items():
        found = frame().selectExpr("count(*)", f"sum({NUMBERS})").head()
        verify(f"{name}: count and sum of events read", found, (count, events.total(count)))
    rates = {}
    for sink in SINKS:
        runs = {
            name: partial(rate, name, frame, count=count, sink=sink, folder=folder)
            for name, frame in frames.items()
            if sink == NOOP or name != WITH_TICK
        }
        if sink == NOOP:
            runs[STREAM] = partial(stream_rate, database, count, folder)
        found_rates = interleave(runs, WARM_UP + rounds, say)
        rates[sink] = {name: Figure(each.values[WARM_UP:]) for name, each in found_rates.items()}
    return rates


def rate(name: str, frame: Callable[[], DataFrame], *, count: int, sink: str, folder: str) -> float:
    """Read all events into a sink; return events a second of the whole read."""
    seen = Observation()
    began = time.perf_counter()
    observed = frame().observe(seen, functions.count(functions.lit(1)).alias("events"))
    if sink == PARSED:
        parsed = functions.from_json("ev_data", JSON).alias("row")
        observed = observed.select("ev_id", "ev_time", "ev_type", parsed)
    kind = "noop" if sink == NOOP else "parquet"
    observed.write.format(kind).mode("overwrite").save(f"{folder}/read")
    took = time.perf_counter() - began
    verify(f"{name}: events read", seen.get["events"], count)
    return count / took


def stream_rate(database: QueueDatabase, count: int, folder: str) -> float:
    """Read all events by a new stream until it has them; return events a second."""
    place = f"{folder}/{time.monotonic_ns()}"  # a checkpoint of its own
    options = database.queue(minPartitions=CORES, consumer="stream", startingOffsets="earliest")
    began = time.perf_counter()
    frame = database.spark.readStream.format("pgq").options(**options).schema(SCHEMA).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", place)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    took = time.perf_counter() - began
    found = sum(progress.numInputRows for progress in query.recentProgress)
    verify("pgqpy: events of the stream", found, count)
    return count / took
