"""What a stream asks the server while nothing happens."""

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

    from benchmarks.spark.places import Place

CONSUMER = "silent"
SETTLE = 3.0  # seconds
STATEMENT = re.compile(r"LOG:  (statement|execute [^:]*):")


def statements(place: Place, log: Path, folder: str, seconds: float, trigger: str) -> float:
    """Return the SQL statements a second of an idle query, as the server's log has them."""
    name = str(conninfo_to_dict(place.dsn)["dbname"])
    with psycopg.connect(place.dsn, autocommit=True) as connection:
        connection.execute(
            sql.SQL("alter database {} set log_statement = 'all'").format(sql.Identifier(name))
        )
    options = place.queue(consumer=CONSUMER)
    frame = place.spark.readStream.format("pgq").options(**options).schema(SCHEMA).load()
    writer = frame.writeStream.format("noop").trigger(processingTime=trigger)
    with running(writer, folder):
        time.sleep(SETTLE)
        before = log.stat().st_size
        time.sleep(seconds)
        with log.open("rb") as lines:
            lines.seek(before)
            said = lines.read().decode(errors="replace")
    return len(STATEMENT.findall(said)) / seconds
