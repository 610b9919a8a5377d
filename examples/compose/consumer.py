"""The demo's consumer: sums up the orders, each exactly once.

`pgqpy consumer run consumer:Sales`, in this folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shop import CONSUMER, QUEUE

from pgqpy.consumers import TransactionalConsumer

if TYPE_CHECKING:
    import psycopg

    from pgqpy import Event

ADD = """
    insert into sale (product, orders, cents) values (%s, 1, %s)
    on conflict (product) do update
        set orders = sale.orders + 1, cents = sale.cents + excluded.cents
"""


class Sales(TransactionalConsumer):
    """Keeps a table of sales; what it writes commits together with the end of the batch."""

    queue = QUEUE
    name = CONSUMER

    def process_event(self, event: Event, connection: psycopg.Connection) -> None:
        """Add one order to its product's sums."""
        order = event.json()
        connection.execute(ADD, [order["product"], order["cents"]])
