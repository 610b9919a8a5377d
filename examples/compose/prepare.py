"""Prepare the demo's database: schema, queue, consumer, tables, and the ticker's login.

Twice does no harm.
"""

from __future__ import annotations

import os
from pathlib import Path

import psycopg
from psycopg import sql
from shop import CONSUMER, QUEUE, TABLES

import pgqpy
from pgqpy.install import install

TICKER = "ticker"  # a login


def make_ticker(connection: psycopg.Connection) -> None:
    """Make the login that the ticker uses: it may tick, and neither read nor write events."""
    name = sql.Identifier(TICKER)
    known = connection.execute("select from pg_roles where rolname = %s", [TICKER]).fetchone()
    if known is None:
        connection.execute(sql.SQL("create role {}").format(name))
    connection.execute(sql.SQL("alter role {} login").format(name))
    if file := os.environ.get("TICKER_PASSWORD_FILE"):
        password = Path(file).read_bytes().strip()
        # The server gets, and logs, a hash only.
        hashed = connection.pgconn.encrypt_password(password, TICKER.encode(), b"scram-sha-256")
        statement = sql.SQL("alter role {} password {}").format(name, hashed.decode())
        connection.execute(statement)
    connection.execute(sql.SQL("grant pgq_ticker to {}").format(name))


def main() -> None:
    """Prepare the database that libpq's PG* variables name."""
    with psycopg.connect(autocommit=True) as connection:
        version = install(connection)
        client = pgqpy.Client(connection)
        client.create_queue(QUEUE)
        # Before the first event: a consumer sees what comes after its registration.
        client.register_consumer(QUEUE, CONSUMER)
        connection.execute(TABLES)
        make_ticker(connection)
    print(f"ready: schema {version}, queue {QUEUE}, consumer {CONSUMER}", flush=True)


if __name__ == "__main__":
    main()
