"""The HTTP server of ``pgqpy consumer run``: /metrics and /healthz."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import click
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily

from pgqpy.consumers import AsyncConsumer, Consumer
from pgqpy.ticker.web import CannotListen, Web

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pgqpy.consumers.status import ConsumerTotals, Outage

logger = logging.getLogger("pgqpy.consumers")

COUNTERS = {
    "batches": ("pgq_consumer_batches", "Batches finished by this process."),
    "events": ("pgq_consumer_events", "Events in these batches."),
    "retries": ("pgq_consumer_retries", "Events of these batches put into the retry queue."),
    "dead": ("pgq_consumer_dead_events", "Events of these batches that were given up."),
}


class ConsumerMetrics:
    """The counters and the health of one consumer; a collector for prometheus-client."""

    def __init__(self, consumer: Consumer | AsyncConsumer) -> None:
        self._name = consumer.name
        # Called by the class: the application may have attributes with these names.
        kind = AsyncConsumer if isinstance(consumer, AsyncConsumer) else Consumer
        self._outage: Callable[[], Outage | None] = partial(kind.outage, consumer)  # type: ignore[arg-type]  # of this kind
        self._each = kind.each_queue(consumer)  # type: ignore[arg-type]  # of this kind
        self._counts: list[ConsumerTotals] = [kind.counts(each) for each in self._each]  # type: ignore[arg-type]  # of this kind

    def health(self) -> tuple[int, dict[str, Any]]:
        """Return the HTTP status and body of /healthz: 200 while the consumer is connected."""
        outage = self._outage()
        body = {
            "status": "ok" if outage is None else "unhealthy",
            "queue": ", ".join(each.queue for each in self._each),
            "consumer": self._name,
            "reason": None if outage is None else str(outage),
        }
        return HTTPStatus.OK if outage is None else HTTPStatus.SERVICE_UNAVAILABLE, body

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield the counters (prometheus-client calls this at every scrape)."""
        for attribute, (name, text) in COUNTERS.items():
            family = CounterMetricFamily(name, text, labels=["queue", "consumer"])
            for each, counts in zip(self._each, self._counts, strict=True):
                family.add_metric([each.queue, each.name], getattr(counts, attribute))
            yield family


@contextmanager
def serve_metrics(consumer: Consumer | AsyncConsumer, host: str, port: int) -> Iterator[None]:
    """Serve /metrics and /healthz during the block."""
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    metrics = ConsumerMetrics(consumer)
    registry.register(metrics)
    web = Web(host, port, health=metrics.health, registry=registry)
    try:
        where = web.start()
    except CannotListen as exc:
        raise click.ClickException(str(exc)) from exc
    logger.info("metrics at http://%s/metrics", where)
    try:
        yield
    finally:
        web.stop()
