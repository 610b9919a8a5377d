"""An event queue inside PostgreSQL, for Python and Spark."""
