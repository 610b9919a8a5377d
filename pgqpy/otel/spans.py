"""Names and attributes of spans, by the conventions for messaging; the trace context as text."""

from __future__ import annotations

from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from pgqpy.consumers.retry import wanted_delay
from pgqpy.errors import InvalidArgument, MissingExtra

if TYPE_CHECKING:
    from collections.abc import Iterator

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

__all__ = [
    "Context",
    "Link",
    "NonRecordingSpan",
    "Span",
    "SpanContext",
    "SpanKind",
    "StatusCode",
    "TraceContextTextMapPropagator",
    "Tracer",
    "TracerProvider",
    "get_current_span",
    "get_tracer",
    "set_span_in_context",
    "use_span",
]


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
            span.set_attribute("error.type", _name_of(type(error)))
        else:
            span.set_attribute("messaging.pgq.retry_after_seconds", delay)
        raise
    finally:
        span.end()


def _name_of(kind: type[BaseException]) -> str:
    place = kind.__module__
    return kind.__qualname__ if place == "builtins" else f"{place}.{kind.__qualname__}"
