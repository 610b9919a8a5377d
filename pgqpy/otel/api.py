"""The names of opentelemetry-api that pgqpy uses."""

from __future__ import annotations

from pgqpy.errors import MissingExtra

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
