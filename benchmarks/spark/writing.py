"""Write a DataFrame: into the queue, and by Spark's JDBC sink into the same table."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import psycopg

import pgqpy
from benchmarks import events
from benchmarks.figures import Figure, interleave, verify
from benchmarks.spark.database import QUEUE
from benchmarks.spark.session import CORES

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from benchmarks.spark.database import QueueDatabase

AT_LEAST_ONCE, EXACTLY_ONCE, JDBC = "pgqpy at least once", "pgqpy exactly once", "JDBC"
TABLE = "pgq.event_1_0"
BATCH = 10_000  # rows
WARM_UP = 1  # rounds that do not count
TICK = f"select pgq.tick_queue('{QUEUE}')"
RANGE = f"select pgq.tick_event_sql('{QUEUE}', min(tick_id), max(tick_id)) from pgq.tick"
SUMS = """
    select count(*), sum(substring(ev_data from '"n": "(\\d+)"')::bigint) from ({}) events"""


def prepare(dsn: str) -> None:
    """Create the queue."""
    with pgqpy.connect(dsn) as client:
        client.create_queue(QUEUE)


def rows(database: QueueDatabase, count: int) -> DataFrame:
    """Return the events of all cases, made in Spark as they are written."""
    number = f"lpad(cast(id % {events.DISTINCT} as string), 6, '0')"
    data = f"""concat('{{"n": "', {number}, '", "data": "{events.FILLING}"}}')"""
    numbers = database.spark.range(0, count, 1, CORES)
    return numbers.selectExpr(f"'{events.TYPE}' AS type", f"{data} AS data")


def contestants(
    database: QueueDatabase, frame: DataFrame, *, jdbc: bool
) -> dict[str, Callable[[], None]]:
    """Return the functions that write the frame, with two tasks each."""
    found: dict[str, Callable[[], None]] = {
        AT_LEAST_ONCE: partial(by_queue, database, frame, "at_least_once"),
        EXACTLY_ONCE: partial(by_queue, database, frame, "exactly_once"),
    }
    if jdbc:
        found[JDBC] = partial(by_jdbc, database, frame)
    return found


def by_queue(database: QueueDatabase, frame: DataFrame, mode: str) -> None:
    """Write into the queue."""
    frame.write.format("pgq").options(**database.queue(mode=mode)).mode("append").save()


def by_jdbc(database: QueueDatabase, frame: DataFrame) -> None:
    """Write into the queue's table, by multi-row INSERTs."""
    properties = database.properties(batchsize=BATCH, reWriteBatchedInserts="true")
    renamed = frame.toDF("ev_type", "ev_data")
    renamed.write.jdbc(database.url, TABLE, mode="append", properties=properties)


def measure(
    writers: dict[str, Callable[[], None]],
    dsn: str,
    count: int,
    rounds: int,
    say: Callable[[str], None],
) -> dict[str, Figure]:
    """Return events a second of each."""
    runs = {name: partial(rate, name, write, dsn, count) for name, write in writers.items()}
    found = interleave(runs, WARM_UP + rounds, say)
    return {name: Figure(figure.values[WARM_UP:]) for name, figure in found.items()}


def rate(name: str, write: Callable[[], None], dsn: str, count: int) -> float:
    """Write into the empty table, and check the events that consumers get."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"truncate {TABLE}".encode())
        connection.execute("checkpoint")
        began = time.perf_counter()
        write()
        took = time.perf_counter() - began
        connection.execute(TICK.encode())
        (query,) = connection.execute(RANGE.encode()).fetchone() or ("",)
        found = connection.execute(SUMS.format(query).encode()).fetchone()
        verify(f"{name}: count and sum of what is given", found, (count, events.total(count)))
    return count / took
