"""A shop that places orders, and tells the queue of each in the same transaction."""

import os
from typing import Any

import psycopg

import pgqpy

TABLE = """
    create table if not exists orders (
        id bigint generated always as identity, customer text, total numeric
    )
"""
INSERT = "insert into orders (customer, total) values (%s, %s) returning id"


def place_order(connection: psycopg.Connection[Any], customer: str, total: str) -> Any:
    """Insert the order and its event: both are there after COMMIT, or neither is."""
    (order,) = connection.execute(INSERT, [customer, total]).fetchone() or (None,)
    details = {"order": order, "customer": customer, "total": total}
    pgqpy.Client(connection).insert_event("orders", "placed", details)
    return order


with psycopg.connect(os.environ["PGQPY_DSN"]) as connection:
    connection.execute(TABLE)
    for customer, total in [("ann", "12.50"), ("bob", "99.00"), ("cid", "7.00")]:
        print(f"{customer} placed order {place_order(connection, customer, total)}")
