"""A driver that reads the queue `q` twice: into parquet files, and by foreachBatch into tables.

`python harness_driver.py MASTER FOLDER stream` goes on until it is killed or a query fails;
`… drain` takes what there is, and writes down what the files hold: rows.jsonl in the folder;
`… batch` reads by a batch and by a stream what is there, and says how much it was.
The database is PGQPY_DSN's, of this process and of all executors.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from pyspark.sql import SparkSession

from pgqpy.spark import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

CONF = {
    "spark.executor.extraJavaOptions": os.environ["SPARK_DAEMON_JAVA_OPTS"],
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}
COLUMNS = ("tick_id", "ev_id", "ev_data")
GATE = "select pg_advisory_xact_lock_shared(%s)"  # where a test holds us: GATE_KEY
NEW_EPOCH = "insert into epoch values (%s) on conflict do nothing"
DELIVERED = "copy delivered (tick_id, ev_id, ev_data) from stdin"
UPSERT = """
    insert into latest (producer, events, last_id) values (%s, %s, %s)
    on conflict (producer) do update set events = latest.events + excluded.events,
        last_id = greatest(latest.last_id, excluded.last_id)
"""


def session(master: str, folder: Path) -> SparkSession:
    """Start Spark."""
    builder = SparkSession.builder.master(master).appName("proofs")
    for name, value in {**CONF, "spark.local.dir": str(folder / "scratch")}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark


def read(spark: SparkSession, consumer: str) -> DataFrame:
    """Return the stream of a consumer."""
    reader = spark.readStream.format("pgq").option("queue", "q").option("consumer", consumer)
    return reader.option("minPartitions", "2").load().select(*COLUMNS)


def start(spark: SparkSession, folder: Path, **trigger: Any) -> list[StreamingQuery]:
    """Start both queries, or go on with them."""

    def begin(consumer: str, writer: DataStreamWriter) -> StreamingQuery:
        writer = writer.option("checkpointLocation", str(folder / consumer))
        return (writer.trigger(**trigger) if trigger else writer).start()

    files = read(spark, "files").writeStream.format("parquet").option("path", str(folder / "lake"))
    tables = read(spark, "tables").writeStream.foreachBatch(write_tables)
    first = begin("files", files)
    # Spark shares a map of the environment between queries, and fills it while a query begins: what
    # it sends to its tasks meanwhile they may not be able to read (OptionalDataException).
    while not first.recentProgress and not first.awaitTermination(0.1):  # type: ignore[arg-type]  # a fraction of a second is fine
        pass
    return [first, begin("tables", tables)]


def write_tables(events: DataFrame, epoch: int) -> None:
    """Write a micro-batch and its number in one transaction; one that was written is skipped."""
    rows = [tuple(row) for row in events.collect()]
    counts: dict[str, tuple[int, int]] = {}
    for _, event_id, data in rows:
        producer = data.partition(":")[0]
        events_before, last = counts.get(producer, (0, 0))
        counts[producer] = events_before + 1, max(last, event_id)
    with psycopg.connect(os.environ["PGQPY_DSN"]) as connection:
        if connection.execute(NEW_EPOCH, [epoch]).rowcount:
            with connection.cursor().copy(DELIVERED) as copy:
                for row in rows:
                    copy.write_row(row)
            for producer, (events_here, last) in sorted(counts.items()):
                connection.execute(UPSERT, [producer, events_here, last])
        else:
            connection.execute("insert into refused values (%s)", [epoch])
        connection.commit()
        connection.execute(GATE, [os.environ["GATE_KEY"]])


def stream(spark: SparkSession, folder: Path) -> None:
    """Go on for ever."""
    start(spark, folder)
    spark.streams.awaitAnyTermination()


def drain(spark: SparkSession, folder: Path) -> None:
    """Take what there is, then write down what is in the files."""
    for query in start(spark, folder, availableNow=True):
        query.awaitTermination()
    dump(spark.read.parquet(str(folder / "lake")), folder / "rows.jsonl")


def batch(spark: SparkSession, folder: Path) -> None:
    """Write down what a batch reads, then what a stream reads."""
    reader = spark.read.format("pgq").option("queue", "q").option("minPartitions", "4")
    events = reader.load().select(*COLUMNS)
    dump(events, folder / "batch.jsonl")
    drain(spark, folder)
    hosts = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()  # the driver is one
    sys.stdout.write(f"partitions: {events.rdd.getNumPartitions()}, executors: {hosts - 1}\n")


def dump(rows: DataFrame, path: Path) -> None:
    """Write the rows down, a line each."""
    lines = (json.dumps(list(row)) for row in rows.select(*COLUMNS).collect())
    path.write_text("".join(f"{line}\n" for line in lines))


def end_with_parent() -> None:
    """End, and Java with us, when the test that started us is gone."""
    parent = os.getppid()
    while os.getppid() == parent:
        threading.Event().wait(1)
    os._exit(1)


def main(master: str, folder: str, what: str) -> None:
    """Do what is asked."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    spark = session(master, Path(folder))
    {"stream": stream, "drain": drain, "batch": batch}[what](spark, Path(folder))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
