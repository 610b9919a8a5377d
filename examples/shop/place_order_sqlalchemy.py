"""The same with SQLAlchemy: the client rides on the session's connection and transaction."""

import os
from typing import Any

import psycopg
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

import pgqpy


def client_of(session: Session) -> pgqpy.Client:
    """Return a client that works in the session's transaction."""
    connection: Any = session.connection().connection.driver_connection
    return pgqpy.Client(connection)


DSN = os.environ["PGQPY_DSN"]
engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(DSN))

with Session(engine) as session:
    insert = text("insert into orders (customer, total) values ('dee', 30) returning id")
    order = session.execute(insert).scalar_one()
    details = {"order": order, "customer": "dee", "total": "30.00"}
    client_of(session).insert_event("orders", "placed", details)
    session.commit()
    print(f"dee placed order {order}")

with Session(engine) as session:
    client_of(session).insert_event("orders", "placed", {"order": 0})
    session.rollback()
    print("an event that is rolled back is never delivered")
