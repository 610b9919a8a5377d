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

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from benchmarks.spark.database import QueueDatabase

PGQ, WITH_TICK, JDBC = "pgqpy", "pgqpy with tick_id", "JDBC"
COLUMNS = "ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4"  # noqa: E501  # as one writes it
SCHEMA = (
    "ev_id BIGINT, ev_time TIMESTAMP, ev_txid BIGINT, ev_retry INT, ev_type STRING, "
    "ev_data STRING, ev_extra1 STRING, ev_extra2 STRING, ev_extra3 STRING, ev_extra4 STRING"
)
FETCH = 10_000  # rows; Spark's default keeps them all in memory, and takes half as long again
WARM_UP = 2  # rounds that do not count: Java's compiler is still at work
COMMIT, TICKS = 1000, 10
HALF = """select percentile_disc(0.5) within group (order by ev_txid) from pgq.event_1"""
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
    frames: dict[str, Callable[[], DataFrame]],
    count: int,
    rounds: int,
    say: Callable[[str], None],
) -> dict[str, Figure]:
    """Return events a second of each, after a check of the rows."""
    for name, frame in frames.items():
        found = frame().selectExpr("count(*)", f"sum({NUMBERS})").head()
        verify(f"{name}: count and sum of events read", found, (count, events.total(count)))
    runs = {name: partial(rate, name, frame, count) for name, frame in frames.items()}
    found_rates = interleave(runs, WARM_UP + rounds, say)
    return {name: Figure(figure.values[WARM_UP:]) for name, figure in found_rates.items()}


def rate(name: str, frame: Callable[[], DataFrame], count: int) -> float:
    """Read all events into a sink that drops them; return events a second of the whole read."""
    seen = Observation()
    began = time.perf_counter()
    observed = frame().observe(seen, functions.count(functions.lit(1)).alias("events"))
    observed.write.format("noop").mode("overwrite").save()
    took = time.perf_counter() - began
    verify(f"{name}: events read", seen.get["events"], count)
    return count / took
