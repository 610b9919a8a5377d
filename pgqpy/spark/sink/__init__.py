"""The Spark sink: inserts the rows of a DataFrame as events of a queue."""
