"""The source: a queue as a stream or as a DataFrame."""
