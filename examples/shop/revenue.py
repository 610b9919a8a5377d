"""A consumer that adds up, exactly once: its sums commit together with the batch.

Its table: create table revenue (customer text primary key, total numeric)
"""

from typing import Any

from psycopg import Connection

from pgqpy import Event
from pgqpy.consumers import TransactionalConsumer

ADD = """
    insert into revenue values (%s, %s)
    on conflict (customer) do update set total = revenue.total + excluded.total
    returning total
"""


class Revenue(TransactionalConsumer):
    """Run it: pgqpy consumer run revenue:Revenue."""

    queue = "orders"
    name = "revenue"

    def process_event(self, event: Event, connection: Connection[Any]) -> None:
        """Add one order to its customer's sum, in the transaction that finishes the batch."""
        order = event.json()
        (total,) = connection.execute(ADD, [order["customer"], order["total"]]).fetchone() or (0,)
        print(f"{order['customer']} has spent {total}", flush=True)
