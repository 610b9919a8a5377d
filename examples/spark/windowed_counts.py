"""Transfers per branch and minute of event time; those up to two minutes late are counted.

Run it with the database in PGQPY_DSN: python windowed_counts.py, again for what came since.
"""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import pgqpy.spark

spark = SparkSession.builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", 2)  # 200 by default, each a task and a state store
pgqpy.spark.register(spark)

events = (
    spark.readStream.format("pgq")
    .option("queue", "transfers")
    .option("consumer", "windowed_counts")
    .option("startingOffsets", "earliest")
    .load()
)
transfer = F.from_json("ev_data", "branch INT, delta INT, at TIMESTAMP")
counts = (
    events.select(transfer.alias("transfer"))
    .select("transfer.*")
    .withWatermark("at", "2 minutes")
    .groupBy(F.window("at", "1 minute").alias("minute"), "branch")
    .agg(F.count("*").alias("transfers"), F.sum("delta").alias("delta"))
    .select("minute.start", "branch", "transfers", "delta")
)
# Append: a window is written once, when no event that is in time can change it any more.
query = (
    counts.writeStream.outputMode("append")
    .format("json")
    .option("checkpointLocation", "counts/_checkpoint")
    .trigger(availableNow=True)  # processingTime="10 seconds" stays and goes on
    .start("counts")
)
query.awaitTermination()
pgqpy.spark.finish(spark, "counts/_checkpoint")
spark.stop()
