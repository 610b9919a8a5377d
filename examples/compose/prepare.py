"""Prepare the demo's database: schema, queue, consumer, tables. Twice does no harm."""

from __future__ import annotations

import psycopg
from shop import CONSUMER, QUEUE, TABLES

import pgqpy
from pgqpy.install import install


def main() -> None:
    """Prepare the database that libpq's PG* variables name."""
    with psycopg.connect(autocommit=True) as connection:
        version = install(connection)
        client = pgqpy.Client(connection)
        client.create_queue(QUEUE)
        # Before the first event: a consumer sees what comes after its registration.
        client.register_consumer(QUEUE, CONSUMER)
        connection.execute(TABLES)
    print(f"ready: schema {version}, queue {QUEUE}, consumer {CONSUMER}", flush=True)


if __name__ == "__main__":
    main()
