"""What the spans say of handlers that fail."""

from __future__ import annotations

from typing import Any

from opentelemetry.trace import StatusCode

from pgqpy.consumers import Retry
from pgqpy.otel import trace_consumer
from tests.consumers.harness import CONSUMER, QUEUE
from tests.consumers.traced import BATCH, INSERT, PROCESS, run
from tests.support.spans import attributes, parent, place
from tests.support.waiting import eventually


def test_a_retried_event_keeps_its_context_and_says_which_attempt_it_is(
    queue, make, spans, producer
):
    failures = [ValueError("secret"), None]

    def handler(event: Any) -> None:
        if error := failures.pop(0):
            raise error

    producer.insert_event(QUEUE, "t", "secret")
    queue.tick()
    run(make, spans, handler, backoff=(3600.0, 3600.0))
    eventually(queue.retry_now)
    processes, (insert,) = spans.wait(PROCESS, 2), spans.wait(INSERT)
    assert [parent(span) for span in processes] == [place(insert.context)] * 2
    told = [attributes(span) for span in processes]
    assert [each["messaging.pgq.delivery_attempt"] for each in told] == [1, 2]
    assert [each.get("error.type") for each in told] == ["ValueError", None]
    assert [span.status.status_code for span in processes] == [StatusCode.ERROR, StatusCode.UNSET]
    assert "secret" not in "".join(span.to_json() for span in processes)


def test_asking_for_a_retry_is_no_error(queue, make, spans):
    def handler(event: Any) -> None:
        raise Retry(after=3600)

    queue.insert("a")
    run(make, spans, handler)
    (process,) = spans.wait(PROCESS)
    assert process.status.status_code is StatusCode.UNSET
    assert attributes(process)["messaging.pgq.retry_after_seconds"] == 3600
    assert "error.type" not in attributes(process)


def test_work_that_a_handler_returns_undone_is_an_error_of_its_span(queue, make_sync, spans):
    def undone(_self: Any, event: Any) -> Any:
        return (number for number in range(3))

    queue.insert("a")
    members = {"queue": QUEUE, "name": CONSUMER, "process_event": undone}
    consumer = type("Undone", (make_sync.base,), members)(make_sync.dsn, backoff=(3600.0, 3600.0))
    trace_consumer(consumer, tracer_provider=spans.provider)
    make_sync.run(consumer)
    (process,) = spans.wait(PROCESS)
    assert attributes(process)["error.type"] == "TypeError"


def test_a_transactional_handler_has_a_span_for_each_time_it_is_called(
    queue, make, spans, producer, effects
):
    def handler(event: Any) -> Any:
        yield "insert into effect (data) values (%s)", [event.data]
        if event.data == "wrong":
            yield "select 1/0", None

    ids = [str(producer.insert_event(QUEUE, "t", data)) for data in ("right", "wrong")]
    queue.tick()
    run(make, spans, handler, transactional=True, backoff=(3600.0, 3600.0))
    spans.wait(BATCH)
    assert effects() == ["right"]
    told = [attributes(span) for span in spans.wait(PROCESS, 4)]  # at first without savepoints
    assert [each["messaging.message.id"] for each in told] == ids * 2
    errors = [each.get("error.type") for each in told]
    assert errors == [None, "psycopg.errors.DivisionByZero"] * 2
