"""The daemon's metrics for Prometheus, and the duty that reads queue and consumer lag."""

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
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import timedelta

    from pgqpy import Client

TICKS = "pgq_ticks"
ERRORS = "pgq_errors"
RETRIED_EVENTS = "pgq_retried_events"
ROTATIONS = "pgq_rotations"
RECONNECTS = "pgq_reconnects"
TICKER_ACTIVE = "pgq_ticker_active"
FAILING_QUEUES = "pgq_ticker_failing_queues"
LAST_POLL_AGE = "pgq_ticker_last_poll_age_seconds"
TICKER_LAG = "pgq_ticker_lag_seconds"
NEW_EVENTS = "pgq_new_events"
CONSUMER_LAG = "pgq_consumer_lag_seconds"
CONSUMER_LAST_SEEN = "pgq_consumer_last_seen_seconds"
PENDING_EVENTS = "pgq_pending_events"
RETRY_EVENTS = "pgq_retry_events"
DEAD_EVENTS = "pgq_dead_events"
NOTIFY_QUEUE = "pgq_notify_queue_usage"

LABELS = ("database", "queue", "consumer")
# Name, text, and field of QueueReading or ConsumerReading.
QUEUE_GAUGES = (
    (TICKER_LAG, "Age of the queue's last tick.", "ticker_lag"),
    (NEW_EVENTS, "Events since the last tick.", "new_events"),
)
CONSUMER_GAUGES = (
    (CONSUMER_LAG, "Age of the last finished tick.", "lag"),
    (CONSUMER_LAST_SEEN, "Since its last batch.", "last_seen"),
    (PENDING_EVENTS, "Events after the position.", "pending_events"),
    (RETRY_EVENTS, "Events in the retry queue, counted up to 10000.", "retry_events"),
    (DEAD_EVENTS, "Dead events, counted up to 10000.", "dead_events"),
)


class QueueReading(NamedTuple):
    """One queue, from get_queue_info."""

    queue: str
    ticker_lag: float  # seconds since its last tick
    new_events: int  # taken from its sequence since its last tick


class ConsumerReading(NamedTuple):
    """One subscription, from get_consumer_info and get_consumer_counts."""

    queue: str
    consumer: str
    lag: float  # seconds: age of its last finished tick
    last_seen: float  # seconds since it last asked for or finished a batch
    pending_events: int  # after its position; a hint, as event sequences are
    retry_events: int  # in the retry queue, counted up to 10,000
    dead_events: int  # as retry_events


class DatabaseReading(NamedTuple):
    """The queues and subscriptions of one database at one time."""

    queues: Sequence[QueueReading]
    consumers: Sequence[ConsumerReading]
    notify_queue: float = 0.0  # used part of the server's NOTIFY queue, 0 to 1


def read_gauges(client: Client) -> DatabaseReading:
    """Read the lag of every queue and every subscription."""
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
        if info[:2] in counts  # else it was registered in between: shown next time
    ]
    return DatabaseReading(queues, consumers, notify_queue=notify_queue_usage(client))


def notify_queue_usage(client: Client) -> float:
    """Return the used part of the server's NOTIFY queue, 0 to 1."""
    row = client.connection.execute("select pg_notification_queue_usage()").fetchone()
    return float(row[0]) if row else 0.0


def seconds(interval: timedelta | None) -> float:
    """Return an interval in seconds; 0 for None, a queue or consumer without a tick."""
    return interval.total_seconds() if interval is not None else 0.0


class TickerMetrics:
    """The metrics of one daemon, in a registry of their own."""

    def __init__(self) -> None:
        """Register every metric with value zero."""
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
        self._last_poll_age = Gauge(
            LAST_POLL_AGE,
            "Seconds since the last poll that ticked every queue that was due.",
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
        """Add a database's metrics; `age` and `failing` are called at every scrape.

        `age` returns seconds, `failing` a number of queues.
        """
        self.active.labels(database).set(0)
        self._last_poll_age.labels(database).set_function(age)
        self._failing_queues.labels(database).set_function(failing)
        self.reconnects.labels(database)
        self.retried_events.labels(database)


class Readings:
    """Gauges from the last reading of each database.

    They are built at every scrape. So a dropped queue or consumer leaves no stale line, and
    no scrape meets half of a reading.
    """

    def __init__(self) -> None:
        self._by_database: dict[str, DatabaseReading] = {}

    def put(self, database: str, reading: DatabaseReading) -> None:
        """Replace the reading of a database."""
        self._by_database[database] = reading

    def forget(self, database: str) -> None:
        """Remove the reading of a database: another daemon reads it."""
        self._by_database.pop(database, None)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges; prometheus-client calls this at every scrape."""
        readings = list(self._by_database.items())
        queues = [((name, q.queue), q) for name, found in readings for q in found.queues]
        consumers = [
            ((name, c.queue, c.consumer), c) for name, found in readings for c in found.consumers
        ]
        for metric, text, field in QUEUE_GAUGES:
            lags = ((labels, getattr(queue, field)) for labels, queue in queues)
            yield _gauge(metric, text, LABELS[:2], lags)
        usage = (((name,), found.notify_queue) for name, found in readings)
        text = "Used part of the server's NOTIFY queue, 0 to 1."
        yield _gauge(NOTIFY_QUEUE, text, LABELS[:1], usage)
        for metric, text, field in CONSUMER_GAUGES:
            values = ((labels, getattr(consumer, field)) for labels, consumer in consumers)
            yield _gauge(metric, text, LABELS, values)


def _gauge(
    name: str, text: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float]]
) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(name, text, labels=labels)
    for of, value in values:
        gauge.add_metric(of, value)
    return gauge
