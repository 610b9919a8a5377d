"""The HTTP server of ``pgqpy consumer run``: /metrics and /healthz."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import click
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from pgqpy.consumers import AsyncConsumer, Consumer
from pgqpy.consumers.metrics import expose_metrics
from pgqpy.ticker.web import CannotListen, Web

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgqpy.consumers.status import Outage

logger = logging.getLogger("pgqpy.consumers")


def health(consumer: Consumer | AsyncConsumer) -> tuple[int, dict[str, Any]]:
    """Return the HTTP status and body of /healthz: 200 while the consumer is connected."""
    # Called by the class: the application may have attributes with these names.
    kind = AsyncConsumer if isinstance(consumer, AsyncConsumer) else Consumer
    outage: Outage | None = kind.outage(consumer)  # type: ignore[arg-type]  # of this kind
    body = {
        "status": "ok" if outage is None else "unhealthy",
        "queue": consumer.queue,
        "consumer": consumer.name,
        "reason": None if outage is None else str(outage),
    }
    return HTTPStatus.OK if outage is None else HTTPStatus.SERVICE_UNAVAILABLE, body


@contextmanager
def serve_metrics(consumer: Consumer | AsyncConsumer, host: str, port: int) -> Iterator[None]:
    """Serve /metrics and /healthz during the block."""
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    expose_metrics(consumer, registry)
    web = Web(host, port, health=lambda: health(consumer), registry=registry)
    try:
        where = web.start()
    except CannotListen as exc:
        raise click.ClickException(str(exc)) from exc
    logger.info("metrics at http://%s/metrics", where)
    try:
        yield
    finally:
        web.stop()
