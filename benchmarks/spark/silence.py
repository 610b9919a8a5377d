"""The SQL statements of an idle stream."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from benchmarks.spark.streaming import SCHEMA, running

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.spark.database import QueueDatabase

CONSUMER = "silent"
SETTLE = 3.0  # seconds
STATEMENT = re.compile(r"LOG:  (statement|execute [^:]*):")


def statements(
    database: QueueDatabase, log: Path, folder: str, seconds: float, trigger: str
) -> float:
    """Return the SQL statements a second of an idle query, as the server's log has them."""
    name = str(conninfo_to_dict(database.dsn)["dbname"])
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute(
            sql.SQL("alter database {} set log_statement = 'all'").format(sql.Identifier(name))
        )
    options = database.queue(consumer=CONSUMER)
    frame = database.spark.readStream.format("pgq").options(**options).schema(SCHEMA).load()
    writer = frame.writeStream.format("noop").trigger(processingTime=trigger)
    with running(writer, folder):
        time.sleep(SETTLE)
        before = log.stat().st_size
        time.sleep(seconds)
        with log.open("rb") as lines:
            lines.seek(before)
            said = lines.read().decode(errors="replace")
    return len(STATEMENT.findall(said)) / seconds
