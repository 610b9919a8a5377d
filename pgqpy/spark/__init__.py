"""Spark source and sink for queues: `format("pgq")`. `pip install "pgqpy[spark]"`."""

from pgqpy.spark.finish import finish
from pgqpy.spark.session import register

__all__ = ["finish", "register"]
