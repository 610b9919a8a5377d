"""The Spark source: reads a queue as a stream or as a DataFrame."""
