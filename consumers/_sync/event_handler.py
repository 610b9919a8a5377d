"""[Generated from _async/event_handler.py by tools/unasync.py: edit that file, not this one.] What a consumer calls for one event: process_event, timed and watched as far as wanted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pgqpy.consumers.settings import BaseConsumer, handler_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgqpy.consumers.handler_watch import HandlerWatch
    from pgqpy.consumers.histograms import HandlerTimes
    from pgqpy.records import Event


def event_handler(consumer: BaseConsumer, watch: HandlerWatch | None) -> Callable[..., Any]:
    """Return the handler itself, or a function around it."""
    times = BaseConsumer.counts(consumer).times
    handler = handler_of(consumer) if watch is None else _watched(handler_of(consumer), watch)
    return handler if times is None else _timed(handler, times)


def _watched(handler: Callable[..., Any], watch: HandlerWatch) -> Callable[..., Any]:
    def watched(event: Event, *more: Any) -> Any:
        with watch.handling(f"the handler of event {event.id}"):
            return handler(event, *more)

    return watched


def _timed(handler: Callable[..., Any], times: HandlerTimes) -> Callable[..., Any]:
    def timed(event: Event, *more: Any) -> Any:
        began = time.perf_counter()
        try:
            result = handler(event, *more)
        finally:
            times.calls.observe(time.perf_counter() - began)
        times.event_done(event)
        return result

    return timed
