"""The demo's producer: an order and its event, in one transaction, until SIGTERM."""

from __future__ import annotations

import os
import random
import signal
import threading

import psycopg
from shop import ALIVE, PRODUCTS, QUEUE

import pgqpy

PERIOD = float(os.environ.get("PRODUCER_PERIOD", "0.1"))  # seconds between orders


def place_order(connection: psycopg.Connection) -> int:
    """Insert an order and the event that tells of it: both commit, or neither."""
    product, cents = random.choice(PRODUCTS), random.randint(100, 9900)
    with connection.transaction():
        connection.execute("insert into placed (product, cents) values (%s, %s)", [product, cents])
        order = {"product": product, "cents": cents}
        return pgqpy.Client(connection).insert_event(QUEUE, "placed", order)


def main() -> None:
    """Place orders; an error ends the process, and the restart policy starts another."""
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    count = 0
    with psycopg.connect(autocommit=True) as connection:
        print(f"placing an order every {PERIOD} s", flush=True)
        while not stopped.wait(PERIOD):
            place_order(connection)
            ALIVE.touch()
            count += 1
    print(f"placed {count} orders", flush=True)


if __name__ == "__main__":
    main()
