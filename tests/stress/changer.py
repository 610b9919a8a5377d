"""A consumer that is made plain and shared again, while others insert and workers are killed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import psycopg

from tests.stress.producers import connect

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

EVERY = 2  # seconds
MODE = "select pgq.set_consumer_mode('q', %s, %s)"
EVENTS = "select ev_id, ev_type, ev_data::bigint, ev_extra1, ev_txid from pgq.get_batch_events(%s)"
DEAD = "select pgq.event_dead(%s, array[%s::bigint], array[%s::bigint], array['bad'])"
HANDLED = "insert into handled (consumer, ev_id, key, n) values (%s, %s, %s, %s)"


def change(dsn: str, consumer: str, pause: Event, stop: Event, changes: Any) -> None:
    """Change the mode of a consumer until told to stop; then it is shared."""
    is_shared = True
    while not (stop.is_set() and is_shared):
        try:
            with connect(dsn) as connection:
                if is_shared:
                    time.sleep(EVERY)
                    pause.set()
                    connection.execute(MODE, [consumer, "plain"])
                    is_shared = False
                    changes.value += 1
                for _ in range(3):
                    _handle(connection, consumer)
                connection.execute(MODE, [consumer, "shared"])
                is_shared = True
                pause.clear()
        except psycopg.Error as error:
            if error.sqlstate == "PQ021":  # workers still have events
                time.sleep(0.1)
            elif error.sqlstate is not None and not isinstance(error, psycopg.OperationalError):
                print(f"stress: change: {error}", flush=True)
    pause.clear()


def _handle(connection: psycopg.Connection[Any], consumer: str) -> None:
    """Handle one batch, in one transaction."""
    connection.execute("select pgq.maint_retry_events(), pgq.force_tick('q'), pgq.ticker('q')")
    with connection.transaction():
        row = connection.execute("select pgq.next_batch('q', %s)", [consumer]).fetchone()
        if row is None or row[0] is None:
            return
        for event_id, kind, number, key, txid in connection.execute(EVENTS, row).fetchall():
            if kind in ("killer", "bad"):
                connection.execute(DEAD, [row[0], event_id, txid])
            else:
                connection.execute(HANDLED, [consumer, event_id, key, number])
        connection.execute("select pgq.finish_batch(%s)", row)
