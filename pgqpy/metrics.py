"""The metrics, by name: what `/metrics` of the ticker daemon shows to Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.core import GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

TICKS = "pgq_ticks"
ERRORS = "pgq_errors"
RETRIED_EVENTS = "pgq_retried_events"
ROTATIONS = "pgq_rotations"
RECONNECTS = "pgq_reconnects"
TICKER_ACTIVE = "pgq_ticker_active"
FAILING_QUEUES = "pgq_ticker_failing_queues"
LAST_TICK_AGE = "pgq_ticker_last_tick_age_seconds"
TICKER_LAG = "pgq_ticker_lag_seconds"
NEW_EVENTS = "pgq_new_events"
CONSUMER_LAG = "pgq_consumer_lag_seconds"
CONSUMER_LAST_SEEN = "pgq_consumer_last_seen_seconds"
PENDING_EVENTS = "pgq_pending_events"
RETRY_EVENTS = "pgq_retry_events"
DEAD_EVENTS = "pgq_dead_events"
NOTIFY_QUEUE = "pgq_notify_queue_usage"


class QueueReading(NamedTuple):
    """One queue, as get_queue_info tells."""

    queue: str
    ticker_lag: float  # seconds since its last tick
    new_events: int  # taken from its sequence since its last tick


class ConsumerReading(NamedTuple):
    """One subscription, as get_consumer_info and get_consumer_counts tell."""

    queue: str
    consumer: str
    lag: float  # seconds: age of its last finished tick
    last_seen: float  # seconds since it last asked for or finished a batch
    pending_events: int  # after its position; a hint, as event sequences are
    retry_events: int  # in the retry queue, counted up to 10,000
    dead_events: int  # as retry_events


class Reading(NamedTuple):
    """What was read of one database at once."""

    queues: Sequence[QueueReading]
    consumers: Sequence[ConsumerReading]
    notify_queue: float = 0.0  # used part of the server's NOTIFY queue, 0 to 1


class TickerMetrics:
    """The daemon's metrics, in a registry of their own."""

    def __init__(self) -> None:
        """Register every metric, all at zero."""
        registry = self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=registry)
        self.ticks = Counter(TICKS, "Ticks written.", ["database", "queue"], registry=registry)
        self.errors = Counter(
            ERRORS, "Failures, by the duty that failed.", ["database", "duty"], registry=registry
        )
        self.retried_events = Counter(
            RETRIED_EVENTS,
            "Events moved from the retry queue back into their queue.",
            ["database"],
            registry=registry,
        )
        self.rotations = Counter(
            ROTATIONS, "Switches to the next event table.", ["database", "queue"], registry=registry
        )
        self.reconnects = Counter(
            RECONNECTS,
            "Connections lost and attempts to connect that failed.",
            ["database"],
            registry=registry,
        )
        self.active = Gauge(
            TICKER_ACTIVE,
            "1 if this daemon ticks the database, 0 if it stands by or cannot.",
            ["database"],
            registry=registry,
        )
        self._last_tick_age = Gauge(
            LAST_TICK_AGE,
            "Seconds since this daemon last ticked everything that was to be ticked.",
            ["database"],
            registry=registry,
        )
        self._failing_queues = Gauge(
            FAILING_QUEUES,
            "Queues that this daemon cannot tick; its log says why.",
            ["database"],
            registry=registry,
        )
        self.readings = Readings()
        registry.register(self.readings)

    def watch_database(
        self, database: str, *, age: Callable[[], float], failing: Callable[[], float]
    ) -> None:
        """Show a database's metrics from now on; both functions are called at every scrape.

        `age` returns seconds, `failing` a number of queues.
        """
        self.active.labels(database).set(0)
        self._last_tick_age.labels(database).set_function(age)
        self._failing_queues.labels(database).set_function(failing)
        self.reconnects.labels(database)
        self.retried_events.labels(database)


class Readings:
    """Gauges from the last reading of each database.

    Made anew at every scrape: a queue or consumer that is gone leaves no stale line behind, and
    no scrape meets a half-filled gauge.
    """

    def __init__(self) -> None:
        """Start with nothing read."""
        self._by_database: dict[str, Reading] = {}

    def put(self, database: str, reading: Reading) -> None:
        """Replace what was read of a database."""
        self._by_database[database] = reading

    def forget(self, database: str) -> None:
        """Show nothing of a database, as long as another daemon reads it."""
        self._by_database.pop(database, None)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges (prometheus-client calls this at every scrape)."""
        readings = list(self._by_database.items())
        yield from self._queue_gauges(readings)
        usage = GaugeMetricFamily(
            NOTIFY_QUEUE, "Used part of the server's NOTIFY queue, 0 to 1.", labels=["database"]
        )
        for database, reading in readings:
            usage.add_metric([database], reading.notify_queue)
        yield usage
        yield from self._consumer_gauges(readings)

    def _queue_gauges(self, readings: list[tuple[str, Reading]]) -> Iterator[GaugeMetricFamily]:
        labels = ["database", "queue"]
        lag = GaugeMetricFamily(TICKER_LAG, "Age of the queue's last tick.", labels=labels)
        new = GaugeMetricFamily(NEW_EVENTS, "Events since the last tick.", labels=labels)
        for database, reading in readings:
            for queue in reading.queues:
                names = [database, queue.queue]
                lag.add_metric(names, queue.ticker_lag)
                new.add_metric(names, queue.new_events)
        yield lag
        yield new

    def _consumer_gauges(self, readings: list[tuple[str, Reading]]) -> Iterator[GaugeMetricFamily]:
        labels = ["database", "queue", "consumer"]
        lag = GaugeMetricFamily(CONSUMER_LAG, "Age of the last finished tick.", labels=labels)
        seen = GaugeMetricFamily(CONSUMER_LAST_SEEN, "Since its last batch.", labels=labels)
        pending = GaugeMetricFamily(PENDING_EVENTS, "Events after the position.", labels=labels)
        retry = GaugeMetricFamily(
            RETRY_EVENTS, "Events in the retry queue, counted up to 10000.", labels=labels
        )
        dead = GaugeMetricFamily(DEAD_EVENTS, "Dead events, counted up to 10000.", labels=labels)
        for database, reading in readings:
            for consumer in reading.consumers:
                names = [database, consumer.queue, consumer.consumer]
                lag.add_metric(names, consumer.lag)
                seen.add_metric(names, consumer.last_seen)
                pending.add_metric(names, consumer.pending_events)
                retry.add_metric(names, consumer.retry_events)
                dead.add_metric(names, consumer.dead_events)
        yield from (lag, seen, pending, retry, dead)
