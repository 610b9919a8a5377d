"""Names of the local properties that Spark sets for a streaming query's micro-batch."""

QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"  # the prefixes do differ
