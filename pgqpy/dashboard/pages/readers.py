"""The consumers that read ranges of ticks: archives, Spark queries, pipelines."""

from __future__ import annotations

from datetime import timedelta
from operator import itemgetter
from typing import Any

from psycopg.rows import dict_row

from pgqpy.dashboard.page import Page, View, table

NONE = timedelta(0)
# Everybody may read these tables. The pins are the ticks that a reader wants to read again.
POSITIONS = """
    select q.queue_name, c.co_name, p.pos_last_tick, p.pos_pins
    from pgq.current_position p
        join pgq.queue q on q.queue_id = p.sub_queue
        join pgq.consumer c on c.co_id = p.sub_consumer
    where p.pos_pins is not null"""


def collect(view: View) -> dict[str, Any]:
    """Return the readers of one page, the one with the largest lag at the top."""
    with view.client.connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(POSITIONS).fetchall()
    lags = {(each.queue, each.name): each.lag for each in view.snapshot.consumers}
    name = itemgetter("queue_name", "co_name")
    rows = [{**row, "lag": lags.get(name(row))} for row in rows]
    orders = {"lag": lambda row: (row["lag"] is not None, -(row["lag"] or NONE))}
    return {"table": table(rows, view.params, orders, lambda row: " ".join(name(row)))}


READERS = Page("/readers", "readers.html", collect, live=True)
