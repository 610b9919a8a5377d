"""Which spans a context leads to, and that no text in its field does harm."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from pgqpy.otel import MOST_LINKS, trace_consumer
from tests.consumers.harness import QUEUE
from tests.consumers.traced import BATCH, PROCESS, SPAN, TRACE, VALID, call_for, run
from tests.support.spans import attributes, links, parent, place

WRONG = [
    "",
    "billing",
    VALID.upper(),
    f"ff-{TRACE}-{SPAN}-01",
    f"00-{'0' * 32}-{SPAN}-01",
    f"00-{TRACE}-{'0' * 16}-01",
    f"{VALID}-more",
    f"{VALID}\n{VALID}",
    VALID.replace("b7", "\N{ARABIC-INDIC DIGIT SEVEN}7"),
    "\x01'; drop schema pgq; --",
    VALID + "-" * 1_000_000,
]


def test_without_parent_a_handler_begins_a_trace_of_its_own(queue, make, spans):
    call_for(queue, VALID)
    run(make, spans, lambda event: None, parent=False)
    (process,) = spans.wait(PROCESS)
    assert (parent(process), links(process)) == (None, [f"{TRACE}-{SPAN}"])


def test_a_span_around_the_consumer_is_linked(queue, make, spans):
    call_for(queue, VALID)
    consumer: Any = make.consumer(lambda event: consumer.stop())
    trace_consumer(consumer, tracer_provider=spans.provider)
    with spans.tracer.start_as_current_span("around") as around:
        outcome = consumer.run()
        if make.asynchronous:
            asyncio.run(outcome)
    (process,) = spans.wait(PROCESS)
    assert links(process) == [f"{TRACE}-{SPAN}", place(around.get_span_context())]


def test_whatever_the_field_holds_each_event_is_handled(queue, make, spans, caplog):
    seen = []
    call_for(queue, None, *WRONG)
    run(make, spans, lambda event: seen.append(event.extra4))
    processes = spans.wait(PROCESS, len(WRONG) + 1)
    assert seen == [None, *WRONG]
    assert [(parent(span), links(span)) for span in processes] == [(None, [])] * len(processes)
    (batch,) = spans.wait(BATCH)
    assert links(batch) == []
    logged = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert logged == []


def test_the_links_of_a_batch_are_bounded(queue, make, spans):
    contexts = [f"00-{TRACE}-{number:016x}-01" for number in range(1, MOST_LINKS + 51)]
    queue.client.insert_events(
        QUEUE, [("t", "d", None, None, None, context) for context in contexts]
    )
    queue.tick()
    run(make, spans, lambda event: None)
    (batch,) = spans.wait(BATCH)
    assert links(batch) == [context[3:-3] for context in contexts[:MOST_LINKS]]
    assert attributes(batch)["messaging.batch.message_count"] == len(contexts)
