"""The daemon's metrics for Prometheus."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.core import GaugeMetricFamily

from pgqpy.ticker.gauges import GAUGES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgqpy.ticker.gauges import Reading
    from pgqpy.ticker.health import Health


class TickerMetrics:
    """The metrics of one daemon, in a registry of their own."""

    def __init__(self) -> None:
        """Register every metric with value zero."""
        registry = self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, ("database", *labels), registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(name, text, ("database",), registry=registry)

        self.ticks = counter("pgq_ticks", "Ticks written.", "queue")
        self.errors = counter("pgq_errors", "Failures, by the duty that failed.", "duty")
        text = "Events moved from the retry queue back into their queue."
        self.retried_events = counter("pgq_retried_events", text)
        self.cron_events = counter("pgq_cron_events", "Events inserted by cron entries.")
        self.rotations = counter("pgq_rotations", "Switches to the next event table.", "queue")
        text = "Connections lost and attempts to connect that failed."
        self.reconnects = counter("pgq_reconnects", text)
        text = "1 if this daemon ticks the database, 0 if it stands by or cannot."
        self._active = gauge("pgq_ticker_active", text)
        text = "Seconds since the last poll that ticked every queue that had changed."
        self._last_poll_age = gauge("pgq_ticker_last_poll_age_seconds", text)
        text = "Queues that this daemon cannot tick; its log says why."
        self._failing_queues = gauge("pgq_ticker_failing_queues", text)
        self.readings: dict[str, Reading] = {}  # the last one of each database that is active here
        registry.register(self)

    def watch(self, health: Health) -> None:
        """Show a database's metrics from now on; its health is read at every scrape."""
        database = health.database
        self.retried_events.labels(database)
        self.reconnects.labels(database)
        self.cron_events.labels(database)
        self._active.labels(database).set_function(lambda: health.role == "active")
        self._failing_queues.labels(database).set_function(lambda: len(health.failing))
        self._last_poll_age.labels(database).set_function(
            lambda: health.complete_poll_age(time.monotonic())
        )

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges of the last readings; prometheus-client calls this at every scrape.

        So a dropped queue or consumer leaves no stale line, and no scrape meets half of a reading.
        """
        readings = list(self.readings.items())
        for name, (text, *labels) in GAUGES.items():
            family = GaugeMetricFamily(name, text, labels=["database", *labels])
            for database, reading in readings:
                for values, value in reading[name].items():
                    family.add_metric([database, *values], value)
            yield family
