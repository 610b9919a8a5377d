"""Prepare the demo's database: schema, queue, consumer, tables, logins of ticker and dashboard.

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

LOGINS = {  # each with the roles that it needs, and no other
    "ticker": ["pgq_ticker"],  # it may tick, and neither read nor write events
    # It sees no data of events, and changes nothing. The second role shows who holds transactions
    # open.
    "dashboard": ["pgq_dashboard", "pg_read_all_stats"],
}
PASSWORD_FILES = {
    "ticker": "TICKER_PASSWORD_FILE",
    "dashboard": "DASHBOARD_DATABASE_PASSWORD_FILE",
}


def make_login(connection: psycopg.Connection, login: str) -> None:
    """Make a login with its roles and the password in its file."""
    name = sql.Identifier(login)
    known = connection.execute("select from pg_roles where rolname = %s", [login]).fetchone()
    if known is None:
        connection.execute(sql.SQL("create role {}").format(name))
    connection.execute(sql.SQL("alter role {} login").format(name))
    if file := os.environ.get(PASSWORD_FILES[login]):
        password = Path(file).read_bytes().strip()
        # The server gets, and logs, a hash only.
        hashed = connection.pgconn.encrypt_password(password, login.encode(), b"scram-sha-256")
        statement = sql.SQL("alter role {} password {}").format(name, hashed.decode())
        connection.execute(statement)
    for role in LOGINS[login]:
        connection.execute(sql.SQL("grant {} to {}").format(sql.Identifier(role), name))


def main() -> None:
    """Prepare the database that libpq's PG* variables name."""
    with psycopg.connect(autocommit=True) as connection:
        version = install(connection)
        client = pgqpy.Client(connection)
        client.create_queue(QUEUE)
        # Before the first event: a consumer sees what comes after its registration.
        client.register_consumer(QUEUE, CONSUMER)
        connection.execute(TABLES)
        for login in LOGINS:
            make_login(connection, login)
    print(f"ready: schema {version}, queue {QUEUE}, consumer {CONSUMER}", flush=True)


if __name__ == "__main__":
    main()
