"""What the case spark measures, a module each: Spark with a queue, and with its own JDBC source."""
