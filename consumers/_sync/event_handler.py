"""[Generated from _async/event_handler.py by tools/unasync.py: edit that file, not this one.] The application's process_event as the loops call it: watched, timed, traced where wanted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pgqpy.consumers.handlers import check_result
from pgqpy.consumers.tracing import tracing_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgqpy.consumers._sync.loop import Loop
    from pgqpy.consumers.handler_times import HandlerTimes
    from pgqpy.consumers.handler_watch import HandlerWatch
    from pgqpy.consumers.settings import BaseConsumer
    from pgqpy.records import Event


def event_handler(loop: Loop) -> Callable[..., Any]:
    """Return process_event itself, or a function around it."""
    consumer, counts = loop.consumer, loop.counts
    handler = consumer.process_event if loop.watch is None else _watched(consumer, loop.watch)
    handler = handler if counts.times is None else _timed(handler, counts.times)
    return handler if counts.tracing is None else _traced(handler, loop)


def _watched(consumer: BaseConsumer, watch: HandlerWatch) -> Callable[..., Any]:
    def watched(event: Event, *more: Any) -> Any:
        with watch.handling(f"the handler of event {event.id}"):
            return consumer.process_event(event, *more)

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


def _traced(handler: Callable[..., Any], loop: Loop) -> Callable[..., Any]:
    def traced(event: Event, *more: Any) -> None:
        with tracing_event(loop.current, event):  # no handler runs beside the next batch
            check_result(handler(event, *more))

    return traced
