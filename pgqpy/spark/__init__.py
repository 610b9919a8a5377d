"""Spark: a queue as a stream, as a DataFrame and as a sink. `pip install "pgqpy[spark]"`."""

from pgqpy.spark.finish import finish
from pgqpy.spark.register import register

__all__ = ["finish", "register"]
