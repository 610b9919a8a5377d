"""Spans of OpenTelemetry for inserts and handlers. `pip install "pgqpy[otel]"`."""

from __future__ import annotations

import time
from contextlib import contextmanager
from functools import partial, wraps
from importlib.metadata import version
from inspect import iscoroutinefunction
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from pgqpy.calls import bulk, payload
from pgqpy.client import AsyncClient, Client
from pgqpy.consumers import BaseConsumer
from pgqpy.consumers.retry import wanted_delay
from pgqpy.errors import InvalidArgument, InvalidEvent, MissingExtra
from pgqpy.records import InsertedOnce
from pgqpy.texts import class_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence

    from pgqpy.consumers.measures import TracedBatch
    from pgqpy.records import Batch, Event, ListInfo

    # The arguments of an inserting method, and what notes its result.
    Traced = tuple[tuple[Any, ...], dict[str, Any], Callable[[Any], None]]


try:
    from opentelemetry.context import Context
    from opentelemetry.trace import (
        Link,
        NonRecordingSpan,
        Span,
        SpanContext,
        SpanKind,
        StatusCode,
        Tracer,
        TracerProvider,
        get_current_span,
        get_tracer,
        set_span_in_context,
        use_span,
    )
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError:
    raise MissingExtra('opentelemetry-api is needed: pip install "pgqpy[otel]"') from None

__all__ = ["insert_span", "trace_client", "trace_consumer"]


SYSTEM = "pgq"
VERSION = version("pgqpy")  # reading it takes longer than an insert
CONVENTIONS = "https://opentelemetry.io/schemas/1.44.0"
EXTRAS = ("extra1", "extra2", "extra3", "extra4")
LONGEST = 256  # characters of a context; version 00 has 55

_TRACEPARENT = "traceparent"
_propagator = TraceContextTextMapPropagator()


def tracer_of(provider: TracerProvider | None) -> Tracer:
    """Return pgqpy's tracer, of the application's provider if there is no other."""
    return get_tracer("pgqpy", VERSION, provider, CONVENTIONS)


def attributes(queue: str, name: str, kind: str) -> dict[str, Any]:
    """Return the attributes of every span: an operation, and its type in the conventions."""
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        "messaging.destination.name": queue,
    }


def check_extra(extra: str) -> None:
    """Raise InvalidArgument unless it names the field of an event that may hold the context."""
    if extra not in EXTRAS:
        msg = f"extra is one of {', '.join(EXTRAS)}, not {extra!r}"
        raise InvalidArgument(msg, parameter="extra")


def context_text(span: Span) -> str | None:
    """Return the W3C traceparent of a span; None if nothing is traced."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, set_span_in_context(span))
    return carrier.get(_TRACEPARENT)


def context_of(text: object) -> SpanContext | None:
    """Return the context that a field holds; None if it holds anything else.

    Whoever may insert events may write anything there: so nothing is raised, and nothing is logged.
    """
    if not isinstance(text, str) or len(text) > LONGEST:
        return None
    found = _propagator.extract({_TRACEPARENT: text}, Context())
    context = get_current_span(found).get_span_context()
    return context if context.is_valid else None


@contextmanager
def running(span: Span) -> Iterator[None]:
    """Make the span the current one in the block, note how the block ended, and end the span.

    Of an exception only the class is noted: its text may hold data of the event.
    """
    try:
        with use_span(span, record_exception=False, set_status_on_exception=False):
            yield
    except BaseException as error:
        delay = wanted_delay(error)
        if delay is None:
            span.set_status(StatusCode.ERROR)
            span.set_attribute("error.type", class_name(error))
        else:
            span.set_attribute("messaging.pgq.retry_after_seconds", delay)
        raise
    finally:
        span.end()


C = TypeVar("C", Client, AsyncClient)

ONE_EVENT = ("insert_event", "insert_event_once")
MANY_EVENTS = "insert_events"


@contextmanager
def insert_span(
    queue: str, *, tracer_provider: TracerProvider | None = None
) -> Iterator[str | None]:
    """Make the span of an insert in the block, whatever inserts; the block gets its traceparent.

    Store that text in the field that the consumers read it from. None: nothing is traced.

        with insert_span("orders") as traceparent:
            session.execute(INSERT_ORDER, {"data": data, "extra4": traceparent})
    """
    span = _start(tracer_of(tracer_provider), queue, [])
    with running(span):
        yield context_text(span)


def trace_client(
    client: C, extra: str = "extra4", *, tracer_provider: TracerProvider | None = None
) -> C:
    """Let each insert of this client make a span, and store its context; return the client.

    The context goes into the field `extra` of the events, where the application has left it empty.
    A field with a value keeps it. Calling it again does nothing. Raises InvalidArgument for another
    name of a field.

        client = trace_client(pgqpy.connect("dbname=shop"))
        client.insert_event("orders", "paid", {"order": 17})
    """
    if not isinstance(client, (Client, AsyncClient)):
        raise TypeError(f"trace_client takes a client, not {type(client).__name__}")
    check_extra(extra)
    if client not in _traced:
        _traced.add(client)
        place, tracer = payload.FIELDS.index(extra), tracer_of(tracer_provider)
        inserting = Inserting(tracer, place, asynchronous=isinstance(client, AsyncClient))
        for name in ONE_EVENT:
            setattr(client, name, _around(getattr(client, name), inserting.one))
        setattr(client, MANY_EVENTS, _around(getattr(client, MANY_EVENTS), inserting.many))
    return client


def _note_id(span: Span, result: int | InsertedOnce) -> None:
    if isinstance(result, InsertedOnce):
        span.set_attribute("messaging.pgq.is_new", result.is_new)
        result = result.id
    span.set_attribute("messaging.message.id", str(result))


def _note_count(span: Span, result: int | list[int]) -> None:
    count = len(result) if isinstance(result, list) else result
    span.set_attribute("messaging.batch.message_count", count)


class Inserting:
    """Makes the spans of a client, and puts their contexts into the arguments."""

    def __init__(self, tracer: Tracer, place: int, *, asynchronous: bool) -> None:
        """Take the place of the field among an event's fields."""
        self._tracer = tracer
        self._place = place
        self._asynchronous = asynchronous

    @contextmanager
    def one(self, args: tuple[Any, ...], named: dict[str, Any]) -> Iterator[Traced]:
        """Trace a call for one event. A context that the application has stored is linked."""
        name, place = payload.FIELDS[self._place], self._place + 1  # the queue comes first
        given = args[place] if len(args) > place else named.get(name)
        context = context_of(given)
        span = self._start(args, named, [] if context is None else [Link(context)])
        with running(span):
            if given is None and len(args) > place:
                args = (*args[:place], context_text(span), *args[place + 1 :])
            elif given is None:
                named = {**named, name: context_text(span)}
            yield args, named, partial(_note_id, span)

    @contextmanager
    def many(self, args: tuple[Any, ...], named: dict[str, Any]) -> Iterator[Traced]:
        """Trace a call for many events, which all get the same context."""
        span = self._start(args, named, [])
        with running(span):
            text = context_text(span)
            if text is not None and len(args) > 1:
                args = (args[0], self._filled(args[1], text), *args[2:])
            elif text is not None and "events" in named:
                named = {**named, "events": self._filled(named["events"], text)}
            yield args, named, partial(_note_count, span)

    def _start(self, args: tuple[Any, ...], named: dict[str, Any], links: list[Link]) -> Span:
        return _start(self._tracer, args[0] if args else named.get("queue"), links)

    def _filled(self, events: Any, text: str) -> Any:
        """Return the events with the context; what is no iterable is refused by insert_events."""
        if self._asynchronous and hasattr(events, "__aiter__"):
            return self._fill_async(events, text)
        if isinstance(events, (str, bytes, dict)) or not hasattr(events, "__iter__"):
            return events
        return self._fill(events, text)

    def _fill(self, events: Iterable[object], text: str) -> Iterator[object]:
        for event in events:
            yield self._with_context(event, text)

    async def _fill_async(self, events: AsyncIterable[object], text: str) -> AsyncIterator[object]:
        async for event in events:
            yield self._with_context(event, text)

    def _with_context(self, event: object, text: str) -> object:
        place = self._place
        try:
            fields = list(bulk.fields_of(event))
        except InvalidEvent:
            return event  # insert_events refuses it, and says which one it is
        fields += [None] * (place + 1 - len(fields))
        if fields[place] is None:
            fields[place] = text
        return tuple(fields)


def _start(tracer: Tracer, queue: object, links: list[Link]) -> Span:
    name = str(queue)
    wanted = attributes(name, "insert", "send")
    return tracer.start_span(f"insert {name}", None, SpanKind.PRODUCER, wanted, links)


def _around(method: Callable[..., Any], begin: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method with a span around each call."""
    if iscoroutinefunction(method):

        @wraps(method)
        async def traced_async(*args: Any, **named: Any) -> Any:
            with begin(args, named) as (filled, keywords, note):
                result = await method(*filled, **keywords)
                note(result)
            return result

        return traced_async

    @wraps(method)
    def traced(*args: Any, **named: Any) -> Any:
        with begin(args, named) as (filled, keywords, note):
            result = method(*filled, **keywords)
            note(result)
        return result

    return traced


_traced: WeakSet[Client | AsyncClient] = WeakSet()


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

    def opened(self, batch: Batch | ListInfo) -> BatchSpans:
        """Begin the spans of a batch or part that was opened now."""
        return BatchSpans(self, batch)


class BatchSpans:
    """The spans of one open batch, or of a part of it.

    Memory does not grow with the batch (G8): it has at most MOST_LINKS links.
    """

    def __init__(self, tracing: ConsumerTracing, batch: Batch | ListInfo) -> None:
        """Note the time."""
        self._tracing = tracing
        self._batch = batch
        self._opened = time.time_ns()
        # When the events could be had: at the batch's tick; a list of a shared consumer has none.
        self._there = None if batch.tick_id is None else batch.tick_time.timestamp()
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
        }
        more |= self._until_there(event.time.timestamp())
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
        found = {"messaging.consumer.group.name": name, "messaging.pgq.batch.id": batch.id}
        if batch.tick_id is not None and self._there is not None:
            until_open = max(self._opened / SECOND - self._there, 0.0)
            found["messaging.pgq.tick.id"] = batch.tick_id
            found["messaging.pgq.tick_to_open_seconds"] = until_open
        return found

    def _result(self, events: int) -> dict[str, Any]:
        found = {
            "messaging.batch.message_count": events,
            "messaging.pgq.open_to_done_seconds": self._since_open(),
        }
        if self._oldest is not None:
            found |= self._until_there(self._oldest)
        return found

    def _until_there(self, inserted: float) -> dict[str, float]:
        if self._there is None:
            seconds = max(self._opened / SECOND - inserted, 0.0)
            return {"messaging.pgq.insert_to_claim_seconds": seconds}
        return {"messaging.pgq.insert_to_tick_seconds": max(self._there - inserted, 0.0)}

    def _since_open(self) -> float:
        return max((time.time_ns() - self._opened) / SECOND, 0.0)
