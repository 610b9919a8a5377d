"""The duty that reads how far queues and consumers are behind, for /metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.metrics import ConsumerReading, QueueReading, Reading

if TYPE_CHECKING:
    from datetime import timedelta

    from pgqpy import Client


def gauges(client: Client) -> Reading:
    """Read every queue and every subscription once."""
    queues = [
        QueueReading(
            queue=info.queue_name,
            ticker_lag=seconds(info.ticker_lag),
            new_events=info.ev_new or 0,
        )
        for info in client.get_queue_info()
    ]
    counts = {row[:2]: row for row in client.get_consumer_counts()}
    consumers = [
        ConsumerReading(
            queue=info.queue_name,
            consumer=info.consumer_name,
            lag=seconds(info.lag),
            last_seen=seconds(info.last_seen),
            pending_events=info.pending_events or 0,
            retry_events=counts[info[:2]].retry_events,
            dead_events=counts[info[:2]].dead_events,
        )
        for info in client.get_consumer_info()
        if info[:2] in counts  # registered in between: shown next time
    ]
    return Reading(queues, consumers, notify_queue=notify_queue_usage(client))


def notify_queue_usage(client: Client) -> float:
    """Return the used part of the server's NOTIFY queue, 0 to 1."""
    row = client.connection.execute("select pg_notification_queue_usage()").fetchone()
    return float(row[0]) if row else 0.0


def seconds(interval: timedelta | None) -> float:
    """Return an interval in seconds; none (a queue or consumer without a tick) is 0."""
    return interval.total_seconds() if interval is not None else 0.0
