"""Lag: how long the events of a consumer have waited at most."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

import pgqpy
from pgqpy.watch import Watcher


@pytest.mark.usefixtures("new_orders")
def test_a_consumer_without_pending_events_has_no_lag(
    dsn: str, client: pgqpy.Client, connection: psycopg.Connection[Any]
) -> None:
    connection.execute("update pgq.tick set tick_time = tick_time - interval '1 hour'")
    with Watcher(dsn) as watcher:
        found = watcher.poll()
        (queue,), (consumer,) = found.queues, found.consumers
        assert (consumer.lag, queue.worst_lag) == (timedelta(0), timedelta(0))
        client.insert_event("orders", "placed", "1")
        client.tick_queue("orders")
        found = watcher.poll()
    (queue,), (consumer,) = found.queues, found.consumers
    assert consumer.lag == queue.worst_lag
    assert (consumer.lag or timedelta(0)) >= timedelta(hours=1)
