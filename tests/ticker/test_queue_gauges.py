"""The gauges of what queues keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgqpy.ticker.metrics import KEPT_EVENTS, NEWEST_EVENT, OLDEST_EVENT, QUEUE_BYTES, read_gauges

if TYPE_CHECKING:
    import psycopg

    from pgqpy import Client


def test_gauges_show_what_queues_keep(
    client: Client, connection: psycopg.Connection[Any], queue: str
) -> None:
    reading = read_gauges(client)
    assert reading[KEPT_EVENTS] == {(queue,): 0}
    assert reading[OLDEST_EVENT] == reading[NEWEST_EVENT] == {}
    client.insert_event(queue, "t", "1")
    reading = read_gauges(client)
    assert reading[KEPT_EVENTS] == {(queue,): 1}
    assert reading[NEWEST_EVENT][(queue,)] < 60
    client.tick_queue(queue)
    connection.execute("update pgq.tick set tick_time = now() - interval '1 h'")
    reading = read_gauges(client)
    assert reading[OLDEST_EVENT][(queue,)] >= 3600
    assert reading[QUEUE_BYTES][(queue,)] == client.get_queue_metrics(queue)[0].total_bytes
