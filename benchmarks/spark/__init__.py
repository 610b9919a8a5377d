"""The measurements of the case spark, a module each: a queue, and Spark's own JDBC source."""
