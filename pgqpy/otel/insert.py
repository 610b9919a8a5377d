"""Spans of producers, whose context travels in a field of the events."""

from __future__ import annotations

from contextlib import contextmanager
from functools import wraps
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from pgqpy.calls import bulk, payload
from pgqpy.client import AsyncClient, Client
from pgqpy.errors import InvalidEvent
from pgqpy.otel.spans import (
    Link,
    SpanKind,
    attributes,
    check_extra,
    context_of,
    context_text,
    running,
    tracer_of,
)
from pgqpy.records import InsertedOnce

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator

    from pgqpy.otel.spans import Span, Tracer, TracerProvider

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


class Insert:
    """One call of an inserting method: its span and arguments, and what notes its result."""

    def __init__(
        self, span: Span, args: tuple[Any, ...], named: dict[str, Any], note: Callable[..., None]
    ) -> None:
        """Take them."""
        self._span = span
        self._note = note
        self.args = args
        self.named = named

    def done(self, result: Any) -> None:
        """Note what the method returned."""
        self._note(self._span, result)


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
    def one(self, args: tuple[Any, ...], named: dict[str, Any]) -> Iterator[Insert]:
        """Trace a call for one event. A context that the application has stored is linked."""
        name, place = payload.FIELDS[self._place], self._place + 1  # the queue comes first
        given = args[place] if len(args) > place else named.get(name)
        context = context_of(given)
        links = [] if context is None else [Link(context)]
        with self._insert(args, named, links, _note_id) as (insert, text):
            if given is None and len(args) > place:
                insert.args = (*args[:place], text, *args[place + 1 :])
            elif given is None:
                insert.named = {**named, name: text}
            yield insert

    @contextmanager
    def many(self, args: tuple[Any, ...], named: dict[str, Any]) -> Iterator[Insert]:
        """Trace a call for many events, which all get the same context."""
        with self._insert(args, named, [], _note_count) as (insert, text):
            if text is not None and len(args) > 1:
                insert.args = (args[0], self._filled(args[1], text), *args[2:])
            elif text is not None and "events" in named:
                insert.named = {**named, "events": self._filled(named["events"], text)}
            yield insert

    @contextmanager
    def _insert(
        self,
        args: tuple[Any, ...],
        named: dict[str, Any],
        links: list[Link],
        note: Callable[..., None],
    ) -> Iterator[tuple[Insert, str | None]]:
        span = _start(self._tracer, args[0] if args else named.get("queue"), links)
        with running(span):
            yield Insert(span, args, named, note), context_text(span)

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
            with begin(args, named) as insert:
                result = await method(*insert.args, **insert.named)
                insert.done(result)
            return result

        return traced_async

    @wraps(method)
    def traced(*args: Any, **named: Any) -> Any:
        with begin(args, named) as insert:
            result = method(*insert.args, **insert.named)
            insert.done(result)
        return result

    return traced


_traced: WeakSet[Client | AsyncClient] = WeakSet()
