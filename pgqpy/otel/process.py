"""Spans of consumers: one for each call of a handler, and one for each batch."""

from __future__ import annotations

import time
from contextlib import contextmanager
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from pgqpy.consumers import BaseConsumer
from pgqpy.otel.spans import (
    Link,
    NonRecordingSpan,
    SpanKind,
    attributes,
    check_extra,
    context_of,
    get_current_span,
    running,
    set_span_in_context,
    tracer_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pgqpy.consumers.measures import TracedBatch
    from pgqpy.otel.spans import Context, Span, SpanContext, Tracer, TracerProvider
    from pgqpy.records import Batch, Event

MOST_LINKS = 128  # of a batch; the SDK keeps no more either, unless it is told to
LONGEST_TYPE = 255  # characters of an event's type
SECOND = 1_000_000_000  # nanoseconds


def trace_consumer(
    consumer: BaseConsumer,
    extra: str = "extra4",
    *,
    parent: bool = True,
    tracer_provider: TracerProvider | None = None,
) -> None:
    """Make spans of a consumer's handlers and batches. Call it before `run()`.

    `extra` is the field of the events that holds the producer's trace context. With `parent` the
    span of an event belongs to the producer's trace. Without it each handler begins a trace of its
    own, which links to the producer's: for producers that are not trusted. `tracer_provider`: None
    means the global one. Calling it again replaces these settings.

    Raises InvalidArgument for another name of a field; ValueError if the consumer's key or filter
    is this field.

        billing = Billing("dbname=shop")
        trace_consumer(billing)
        billing.run()
    """
    if not isinstance(consumer, BaseConsumer):
        raise TypeError(f"trace_consumer takes a consumer, not {type(consumer).__name__}")
    check_extra(extra)
    if extra == consumer.key or extra in (consumer.filter or ()):
        raise ValueError(f"{type(consumer).__name__} has {extra} as key or filter: trace another")
    tracing = ConsumerTracing(tracer_of(tracer_provider), consumer.name, extra, parent=parent)
    # Called by the class: the application may have attributes with these names.
    BaseConsumer.counts(consumer).tracing = tracing


class ConsumerTracing:
    """The settings of one consumer."""

    def __init__(self, tracer: Tracer, name: str, extra: str, *, parent: bool) -> None:
        """Take them."""
        self.tracer = tracer
        self.name = name
        self.text_of = attrgetter(extra)
        self.parent = parent

    def opened(self, batch: Batch) -> BatchSpans:
        """Begin the spans of a batch or part that was opened now."""
        return BatchSpans(self, batch)


class BatchSpans:
    """The spans of one open batch, or of a part of it.

    Memory does not grow with the batch (G8): it has at most MOST_LINKS links.
    """

    def __init__(self, tracing: ConsumerTracing, batch: Batch) -> None:
        """Note the time."""
        self._tracing = tracing
        self._batch = batch
        self._opened = time.time_ns()
        self._tick = batch.tick_time.timestamp()
        self._oldest: float | None = None  # time of an event
        self._links: dict[str, SpanContext] = {}  # by text, as many events may have the same
        self._handler: Span | None = None  # of process_batch
        process = attributes(batch.queue, "process", "process")
        self._attributes = process | self._of_consumer()

    def note(self, events: Sequence[Event]) -> None:
        """Note the contexts of events that were read, and how old they are."""
        times = [event.time for event in events]
        if times:
            oldest = min(times).timestamp()
            self._oldest = oldest if self._oldest is None else min(self._oldest, oldest)
        for event in events:
            if len(self._links) >= MOST_LINKS:
                return
            text = self._tracing.text_of(event)
            if text in self._links or (context := context_of(text)) is None:
                continue
            self._links[text] = context
            if self._handler is not None:
                self._handler.add_link(context)

    @contextmanager
    def event(self, event: Event) -> Iterator[None]:
        """Make the span of a call of process_event."""
        more = {
            "messaging.message.id": str(event.id),
            "messaging.pgq.delivery_attempt": (event.retry or 0) + 1,
            "messaging.pgq.insert_to_tick_seconds": self._until_tick(event.time.timestamp()),
        }
        if event.type is not None:
            more["messaging.pgq.event.type"] = event.type[:LONGEST_TYPE]
        parent, links = self._origin(context_of(self._tracing.text_of(event)))
        name = f"process {self._batch.queue}"
        wanted = self._attributes | more
        tracer = self._tracing.tracer
        span = tracer.start_span(name, parent, SpanKind.CONSUMER, wanted, links)
        with running(span):
            try:
                yield
            finally:
                span.set_attribute("messaging.pgq.open_to_done_seconds", self._since_open())

    def _origin(self, context: SpanContext | None) -> tuple[Context | None, list[Link]]:
        """Return the context of an event's span (None: the current one) and its links."""
        if context is None:
            return None, []
        links = [Link(context)]
        if not self._tracing.parent:
            return None, links
        around = get_current_span().get_span_context()
        if around.is_valid:
            links.append(Link(around))
        return set_span_in_context(NonRecordingSpan(context)), links

    @contextmanager
    def handler(self, batch: TracedBatch) -> Iterator[None]:
        """Make the span of a call of process_batch; it gets its links while it reads."""
        name = f"process {self._batch.queue}"
        span = self._tracing.tracer.start_span(name, None, SpanKind.CONSUMER, self._attributes)
        self._handler = span
        with running(span):
            try:
                yield
            finally:
                span.set_attributes(self._result(batch.size))

    def finished(self, events: int) -> None:
        """Make the span of a batch, if it has events and process_batch has made none."""
        if self._handler is not None or not events:
            return
        batch = attributes(self._batch.queue, "batch", "receive")
        wanted = batch | self._of_consumer() | self._result(events)
        links = [Link(context) for context in self._links.values()]
        name, tracer = f"batch {self._batch.queue}", self._tracing.tracer
        tracer.start_span(name, None, SpanKind.CLIENT, wanted, links, self._opened).end()

    def _of_consumer(self) -> dict[str, Any]:
        batch, name = self._batch, self._tracing.name
        until_open = max(self._opened / SECOND - self._tick, 0.0)
        found = {
            "messaging.consumer.group.name": name,
            "messaging.pgq.batch.id": batch.id,
            "messaging.pgq.tick.id": batch.tick_id,
            "messaging.pgq.tick_to_open_seconds": until_open,
        }
        if batch.consumer != name:  # a worker or a lane
            found["messaging.client.id"] = batch.consumer
        return found

    def _result(self, events: int) -> dict[str, Any]:
        found = {
            "messaging.batch.message_count": events,
            "messaging.pgq.open_to_done_seconds": self._since_open(),
        }
        if self._oldest is not None:
            found["messaging.pgq.insert_to_tick_seconds"] = self._until_tick(self._oldest)
        return found

    def _until_tick(self, inserted: float) -> float:
        return max(self._tick - inserted, 0.0)

    def _since_open(self) -> float:
        return max((time.time_ns() - self._opened) / SECOND, 0.0)
