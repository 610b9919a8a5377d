"""Consumers that are traced, and events with trace contexts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgqpy.otel import trace_consumer
from tests.consumers.harness import QUEUE

if TYPE_CHECKING:
    from tests.support.spans import Spans

PROCESS, INSERT, BATCH = f"process {QUEUE}", f"insert {QUEUE}", f"batch {QUEUE}"
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
VALID = f"00-{TRACE}-{SPAN}-01"


def run(make: Any, spans: Spans, *handler: Any, parent: bool = True, **settings: Any) -> Any:
    """Run a consumer of these settings, traced."""
    consumer = make.consumer(*handler, **settings)
    trace_consumer(consumer, parent=parent, tracer_provider=spans.provider)
    return make.run(consumer)


def call_for(queue: Any, *contexts: str | None) -> None:
    """Insert an event with each of these contexts, and take a tick."""
    for context in contexts:
        queue.client.insert_event(QUEUE, "test", "secret", extra4=context)
    queue.tick()
