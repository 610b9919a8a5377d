"""The page of traces: its attributes are those of the spans."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

import pgqpy
from pgqpy.consumers import Consumer, Retry
from pgqpy.otel import trace_client, trace_consumer
from tests.docs.markdown import codes, rows
from tests.support.spans import Spans

PAGE = "docs/tracing.md"


class Billing(Consumer):
    """Handles an event of each kind."""

    queue, name = "orders", "billing"

    def process_event(self, event: Any) -> None:
        """Fail, ask for a retry, or end the run."""
        if event.type == "wrong":
            raise ValueError
        if event.type == "later":
            raise Retry(after=3600)
        self.stop()


class Letters(Billing):
    """Shares them with others."""

    name, shared = "letters", True


class Audit(Consumer):
    """Handles batches."""

    queue, name = "orders", "audit"

    def process_batch(self, batch: Any) -> None:
        """Read the batch."""
        if list(batch):
            self.stop()


@pytest.fixture
def seen(dsn: str, client: pgqpy.Client) -> dict[str, set[str]]:
    """The attributes of spans of all kinds: in which operations each one is."""
    spans = Spans()
    client.create_queue("orders")
    consumers = [Billing(dsn), Audit(dsn), Letters(dsn)]
    with trace_client(pgqpy.connect(dsn), tracer_provider=spans.provider) as producer:
        for consumer in consumers[:2]:
            client.register_consumer("orders", consumer.name)
        client.register_consumer("orders", "letters", shared=True)
        producer.insert_events("orders", [("wrong", None), ("later", None)])
        producer.insert_event_once("orders", "right", None, dedup_key="1", dedup_for=60)
        with pytest.raises(pgqpy.QueueNotFound):
            producer.insert_event("nothing", "a", None)
    client.tick_queue("orders")
    for consumer in consumers:
        trace_consumer(consumer, tracer_provider=spans.provider)
        consumer.run()
    found: dict[str, set[str]] = defaultdict(set)
    for span in spans.all():
        for name in span.attributes or {}:
            found[name].add(span.name.split()[0])
    return found


def test_the_attributes_are_all_described(seen: dict[str, set[str]]) -> None:
    described = {
        name: {"insert", "process", "batch"} if where == "all" else set(where.split(", "))
        for names, where, _ in rows(PAGE, "attribute")
        for name in codes(names)
    }
    assert described == seen
