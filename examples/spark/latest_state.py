"""The latest state of each account, kept in a table: exactly once, by the epoch in its transaction.

Run it with the database in PGQPY_DSN: python latest_state.py, again for what came since.
"""

import os

import psycopg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pgqpy.spark

TABLES = """
    create table if not exists account_state (account int primary key, balance int, ev_id bigint);
    create table if not exists spark_epoch (query text primary key, epoch bigint);
"""
# Inserts or moves on; a micro-batch that is run again finds its epoch there, and does nothing.
NEW_EPOCH = """
    insert into spark_epoch values (%s, %s)
    on conflict (query) do update set epoch = excluded.epoch
     where spark_epoch.epoch < excluded.epoch
"""
UPSERT = """
    insert into account_state values (%s, %s, %s)
    on conflict (account) do update set balance = excluded.balance, ev_id = excluded.ev_id
"""


def upsert(events: DataFrame, epoch: int) -> None:
    """Write the last state of each account in a micro-batch, in one transaction with its epoch."""
    query = events.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    state = F.from_json("ev_data", "account INT, balance INT")
    latest = (
        events.select("ev_id", state.alias("state"))
        .groupBy("state.account")
        .agg(F.max_by("state.balance", "ev_id").alias("balance"), F.max("ev_id").alias("ev_id"))
    )
    rows = [tuple(row) for row in latest.toLocalIterator()]
    with psycopg.connect(os.environ["PGQPY_DSN"]) as connection, connection.cursor() as cursor:
        if cursor.execute(NEW_EPOCH, [query, epoch]).rowcount:
            cursor.executemany(UPSERT, rows)
            print(f"epoch {epoch}: {len(rows)} accounts", flush=True)


with psycopg.connect(os.environ["PGQPY_DSN"]) as connection:
    connection.execute(TABLES)

spark = SparkSession.builder.getOrCreate()
pgqpy.spark.register(spark)
events = (
    spark.readStream.format("pgq")
    .option("queue", "balances")
    .option("consumer", "latest_state")
    .option("startingOffsets", "earliest")
    .option("maxEventsPerTrigger", 100_000)  # what a micro-batch brings to this process is bounded
    .load()
)
query = (
    events.writeStream.foreachBatch(upsert)
    .option("checkpointLocation", "latest_state.checkpoint")
    .trigger(availableNow=True)  # processingTime="1 second" stays and goes on
    .start()
)
query.awaitTermination()
pgqpy.spark.finish(spark, "latest_state.checkpoint")
spark.stop()
