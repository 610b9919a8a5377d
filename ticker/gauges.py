"""The duty that reads how far queues and consumers are behind, for /metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.metrics import ConsumerReading, QueueReading, Reading

if TYPE_CHECKING:
    from pgqpy import Client


def gauges(client: Client) -> Reading:
    """Read every queue and every subscription once."""
    queues = [
        QueueReading(
            queue=info.queue_name,
            ticker_lag=info.ticker_lag.total_seconds() if info.ticker_lag is not None else 0.0,
            new_events=info.ev_new or 0,
        )
        for info in client.get_queue_info()
    ]
    consumers = [
        ConsumerReading(
            queue=info.queue_name,
            consumer=info.consumer_name,
            lag=info.lag.total_seconds(),
            last_seen=info.last_seen.total_seconds(),
            pending_events=info.pending_events,
        )
        for info in client.get_consumer_info()
    ]
    return Reading(queues, consumers)
