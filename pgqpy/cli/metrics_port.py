"""The server of /metrics and /healthz for a command that runs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client import CollectorRegistry

LOOPBACK = "127.0.0.1"


@contextmanager
def serving(
    registry: CollectorRegistry,
    host: str | None,
    port: int,
    health: Callable[[], tuple[int, dict[str, Any]]],
) -> Iterator[str | None]:
    """Serve a registry, and metrics of the process, during the block; yield host and port."""
    import prometheus_client as prometheus

    from pgqpy.ticker.web import CannotListen, Web

    for kind in ("ProcessCollector", "PlatformCollector", "GCCollector"):
        getattr(prometheus, kind)(registry=registry)
    web = Web(host or LOOPBACK, port, health=health, registry=registry)
    try:
        where = web.start()
    except CannotListen as exc:
        raise click.ClickException(str(exc)) from exc
    try:
        yield where
    finally:
        web.stop()
