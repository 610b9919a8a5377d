"""Spans kept in memory, and what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import format_span_id, format_trace_id

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan


class Spans:
    """A provider of tracers, and the spans that have ended."""

    def __init__(self, **settings: Any) -> None:
        """Keep none yet; `settings` are the provider's, such as its sampler."""
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(**settings)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("application")

    def all(self) -> list[ReadableSpan]:
        """Return the spans in the order in which they ended."""
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        """Return those with this name."""
        return [span for span in self.all() if span.name == name]

    def wait(self, name: str, count: int = 1) -> list[ReadableSpan]:
        """Wait until so many spans of this name have ended; return them."""
        eventually(lambda: len(self.named(name)) >= count)
        found = self.named(name)
        assert len(found) == count
        return found

    def names(self) -> list[str]:
        """Return the names of all spans."""
        return sorted(span.name for span in self.all())


def place(context: Any) -> str:
    """Return the trace and the span of a context, as a traceparent has them."""
    return f"{format_trace_id(context.trace_id)}-{format_span_id(context.span_id)}"


def links(span: ReadableSpan) -> list[str]:
    """Return the places that a span links to."""
    return [place(link.context) for link in span.links]


def parent(span: ReadableSpan) -> str | None:
    """Return the place of a span's parent; None: it begins a trace."""
    return None if span.parent is None else place(span.parent)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    """Return the attributes of a span."""
    return dict(span.attributes or {})
