"""The database of both contestants: they connect by TCP with a password, as JDBC must."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from psycopg.conninfo import conninfo_to_dict

from benchmarks.spark.session import CORES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUEUE = "bench"


class QueueDatabase(NamedTuple):
    """A database with a queue, and a session that reads and writes it."""

    spark: SparkSession
    dsn: str

    def queue(self, **options: object) -> dict[str, str]:
        """Return the options of format("pgq")."""
        return {"dsn": self.dsn, "queue": QUEUE, **{k: str(v) for k, v in options.items()}}

    @property
    def url(self) -> str:
        """The database as JDBC names it."""
        parts = conninfo_to_dict(self.dsn)
        return "jdbc:postgresql://{host}:{port}/{dbname}".format(**parts)

    def properties(self, **others: object) -> dict[str, str]:
        """Return the properties of a JDBC connection."""
        parts = conninfo_to_dict(self.dsn)
        return {
            "driver": "org.postgresql.Driver",
            "user": str(parts["user"]),
            "password": str(parts["password"]),
            **{name: str(value) for name, value in others.items()},
        }


def by_queue(database: QueueDatabase, schema: str) -> DataFrame:
    """Read everything in the queue."""
    options = database.queue(minPartitions=CORES)
    return database.spark.read.format("pgq").options(**options).schema(schema).load()
