"""Load many events at once: any iterable, streamed by COPY, all or none."""

import os

import pgqpy

LINES = ["eve,15.00", "fay,2.75"] * 5000

with pgqpy.connect(os.environ["PGQPY_DSN"]) as client:
    orders = (line.split(",") for line in LINES)
    events = (
        ("loaded", {"order": number, "customer": customer, "total": total})
        for number, (customer, total) in enumerate(orders, start=1001)
    )
    print(f"{client.insert_events('orders', events):,} events loaded")
