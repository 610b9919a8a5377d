"""The spans of consumers with process_batch: one for each call."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from pgqpy.otel import trace_consumer
from tests.consumers.harness import QUEUE
from tests.consumers.traced import PROCESS, TRACE
from tests.support.spans import Spans, attributes, links, parent, place


def run(make: Any, spans: Spans, handler: Any, **settings: Any) -> None:
    """Run a consumer that reads each batch twice before its handler."""

    def process(_self: Any, batch: Any, *_more: Any) -> None:
        assert [event.id for event in batch] == [event.id for event in batch]
        handler()

    consumer = make.consumer(process_batch=process, **settings)
    trace_consumer(consumer, tracer_provider=spans.provider)
    make.run(consumer)


def insert(queue: Any, *numbers: int) -> list[str]:
    """Insert events, each with a context of its own; return these places."""
    places = [f"{TRACE}-{number:016x}" for number in numbers]
    for each in places:
        queue.client.insert_event(QUEUE, "t", "secret", extra4=f"00-{each}-01")
    queue.tick()
    return places


@pytest.mark.parametrize("settings", [{}, {"transactional": True}], ids=str)
def test_a_batch_has_one_span_with_a_link_to_each_event(queue, make_sync, spans, settings):
    inside = []
    places = insert(queue, 1, 2, 3)
    run(make_sync, spans, lambda: inside.append(get_current_span().get_span_context()), **settings)
    (process,) = spans.wait(PROCESS)
    queue.wait_until_finished()
    assert (parent(process), links(process)) == (None, places)
    assert [place(context) for context in inside] == [place(process.context)]
    assert process.kind is SpanKind.CONSUMER
    told = attributes(process)
    assert told["messaging.batch.message_count"] == 3
    assert "messaging.message.id" not in told
    for name in ("insert_to_tick", "tick_to_open", "open_to_done"):
        assert told[f"messaging.pgq.{name}_seconds"] >= 0
    assert spans.names() == [PROCESS]


def test_each_part_has_a_span(queue, make_sync, spans):
    places = insert(queue, 1, 2, 3)
    run(make_sync, spans, lambda: None, part_size=2)
    parts = spans.wait(PROCESS, 2)
    assert [links(part) for part in parts] == [places[:2], places[2:]]


def test_a_batch_that_fails_says_so_in_its_span_and_is_traced_again(queue, make_sync, spans):
    failures = [ValueError("secret"), None]

    def handler() -> None:
        if error := failures.pop(0):
            raise error

    places = insert(queue, 1)
    run(make_sync, spans, handler, backoff=(0.01, 3600.0))
    processes = spans.wait(PROCESS, 2)
    assert [links(span) for span in processes] == [places] * 2
    codes = [span.status.status_code for span in processes]
    assert codes == [StatusCode.ERROR, StatusCode.UNSET]
    assert attributes(processes[0])["error.type"] == "ValueError"
    assert "secret" not in "".join(span.to_json() for span in processes)
