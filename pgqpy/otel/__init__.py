"""Spans of OpenTelemetry for inserts and handlers. `pip install "pgqpy[otel]"`."""

from pgqpy.otel.insert import insert_span, trace_client
from pgqpy.otel.process import trace_consumer

__all__ = ["insert_span", "trace_client", "trace_consumer"]
