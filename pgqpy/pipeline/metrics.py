"""The metrics of a pipeline for Prometheus."""

from __future__ import annotations

import json
import math
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge

BEHIND = ("events_behind", "ticks_behind", "seconds_behind")


class PipelineMetrics:
    """The metrics of one pipeline, in a registry of their own."""

    def __init__(self) -> None:
        """Begin at 0."""
        self.registry = registry = CollectorRegistry()
        self._events = Counter("pgqpy_pipeline_events", "Events read.", registry=registry)
        self._bad = Counter(
            "pgqpy_pipeline_bad_events", "Events that became bad records.", registry=registry
        )
        self._seconds = Counter(
            "pgqpy_pipeline_write_seconds", "Time for writing micro-batches.", registry=registry
        )
        self._behind = {
            name: Gauge(
                f"pgqpy_pipeline_{name}",
                f"{name.partition('_')[0].capitalize()} behind the queue's newest tick.",
                ["queue"],
                registry=registry,
            )
            for name in BEHIND
        }

    def add(self, events: int, bad: int, seconds: float) -> None:
        """Add a micro-batch."""
        self._events.inc(events)
        self._bad.inc(bad)
        self._seconds.inc(seconds)

    def show(self, progress: Any) -> None:
        """Show how far a query is behind its queues, from its last progress."""
        known = json.loads((progress and progress.sources[0].latestOffset) or "null") or {}
        for queue, at in known.items():
            for name, gauge in self._behind.items():
                gauge.labels(queue).set(math.nan if at[name] is None else at[name])
