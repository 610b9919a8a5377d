"""The metrics of consumers for Prometheus, in a registry that the application chooses.

from pgqpy.consumers.metrics import expose_metrics

billing = Billing("dbname=shop")
expose_metrics(billing)
billing.run()
"""

from __future__ import annotations

from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from pgqpy.consumers.histograms import HandlerTimes
from pgqpy.consumers.settings import BaseConsumer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client import Metric

    from pgqpy.consumers.measures import ConsumerTotals, Outage

LABELS = ("queue", "consumer")
CONNECTED = (
    "pgq_consumer_connected",
    "1 while the consumer can poll for batches; with several of one name, while all can.",
)
COUNTERS = {
    "batches": ("pgq_consumer_batches", "Batches finished by this process."),
    "events": ("pgq_consumer_events", "Events in these batches."),
    "retries": ("pgq_consumer_retries", "Events of these batches put into the retry queue."),
    "dead": ("pgq_consumer_dead_events", "Events of these batches that were given up."),
}
HISTOGRAMS = {
    "calls": ("pgq_consumer_handler_seconds", "How long the calls of the handler took."),
    "ages": (
        "pgq_consumer_insert_to_done_seconds",
        "From an event's time, when its producer's transaction began, to its handler's return.",
    ),
}


def expose_metrics(consumer: BaseConsumer, registry: CollectorRegistry = REGISTRY) -> None:
    """Show a consumer's metrics in a registry of prometheus_client. Call it before `run()`.

    It also lets the consumer measure its handlers, 1.4 µs a call. Calling it again does nothing.
    Consumers with the same queue and name in one registry are added up. Raises ValueError if the
    registry has metrics of these names that are not ours.
    """
    if not isinstance(consumer, BaseConsumer):
        raise TypeError(f"expose_metrics takes a consumer, not {type(consumer).__name__}")
    with _lock:
        collector = _collectors.get(registry)
        if collector is None:
            collector = ConsumerCollector()
            registry.register(collector)
            _collectors[registry] = collector
        collector.add(consumer)


class ConsumerCollector:
    """Reads the totals, the times and the connections of consumers at every scrape."""

    def __init__(self) -> None:
        """Show no consumer yet."""
        self._consumers: list[BaseConsumer] = []
        self._shown: list[Shown] = []

    def add(self, consumer: BaseConsumer) -> None:
        """Show a consumer from now on."""
        if any(consumer is known for known in self._consumers):
            return
        self._consumers.append(consumer)
        # Called by the class: the application may have attributes with these names.
        totals = BaseConsumer.counts(consumer)
        totals.times = totals.times or HandlerTimes()
        outage = partial(BaseConsumer.outage, consumer)
        self._shown.append(Shown((consumer.queue, consumer.name), totals, totals.times, outage))

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; prometheus_client calls this at every scrape."""
        by_name: dict[tuple[str, str], list[Shown]] = {}
        for each in list(self._shown):
            by_name.setdefault(each.labels, []).append(each)
        for attribute, (name, text) in COUNTERS.items():
            counters = CounterMetricFamily(name, text, labels=LABELS)
            for labels, shown in by_name.items():
                counters.add_metric(labels, sum(getattr(each.totals, attribute) for each in shown))
            yield counters
        connected = GaugeMetricFamily(*CONNECTED, labels=LABELS)
        for labels, shown in by_name.items():
            connected.add_metric(labels, float(all(each.outage() is None for each in shown)))
        yield connected
        for attribute, (name, text) in HISTOGRAMS.items():
            histograms = HistogramMetricFamily(name, text, labels=LABELS)
            for labels, shown in by_name.items():
                times = HandlerTimes()
                for each in shown:
                    times.add(each.times)
                histograms.add_metric(labels, *getattr(times, attribute).buckets())
            yield histograms


class Shown(NamedTuple):
    """What is shown of one consumer."""

    labels: tuple[str, str]
    totals: ConsumerTotals
    times: HandlerTimes
    outage: Callable[[], Outage | None]


_lock = Lock()
_collectors: WeakKeyDictionary[CollectorRegistry, ConsumerCollector] = WeakKeyDictionary()
