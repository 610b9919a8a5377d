"""What a consumer calls for one event: process_event, timed and watched as far as wanted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pgqpy.consumers.settings import BaseConsumer

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgqpy.consumers.handler_watch import HandlerWatch
    from pgqpy.consumers.histograms import HandlerTimes
    from pgqpy.records import Event


def event_handler(consumer: BaseConsumer, watch: HandlerWatch | None) -> Callable[..., Any]:
    """Return process_event itself, or a function around it."""
    times = BaseConsumer.counts(consumer).times
    handler = consumer.process_event if watch is None else _watched(consumer, watch)
    return handler if times is None else _timed(handler, times)


def _watched(consumer: BaseConsumer, watch: HandlerWatch) -> Callable[..., Any]:
    async def watched(event: Event, *more: Any) -> Any:
        with watch.handling(f"the handler of event {event.id}"):
            return await consumer.process_event(event, *more)

    return watched


def _timed(handler: Callable[..., Any], times: HandlerTimes) -> Callable[..., Any]:
    async def timed(event: Event, *more: Any) -> Any:
        began = time.perf_counter()
        try:
            result = await handler(event, *more)
        finally:
            times.calls.observe(time.perf_counter() - began)
        times.event_done(event)
        return result

    return timed
