"""What each customer has spent, straight from the queue: a batch read of all that is retained."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import pgqpy.spark

spark = SparkSession.builder.getOrCreate()
pgqpy.spark.register(spark)

events = spark.read.format("pgq").option("queue", "orders").load()
order = F.from_json("ev_data", "customer STRING, total DECIMAL(10,2)").alias("order")
spent = events.where("ev_type = 'placed'").select(order).groupBy("order.customer")
spent.agg(F.count("*").alias("orders"), F.sum("order.total").alias("spent")).orderBy(
    "customer"
).show()
spark.stop()
