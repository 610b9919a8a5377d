"""The spans of handlers and batches, and that nothing is traced unasked."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

import pgqpy
from pgqpy.otel import trace_consumer
from tests.consumers.harness import CONSUMER, QUEUE, private
from tests.consumers.traced import BATCH, INSERT, PROCESS, call_for, run
from tests.support.spans import attributes, links, parent, place
from tests.support.waiting import eventually

TIMES = ("insert_to_tick", "tick_to_open", "open_to_done")
MODES: dict[str, dict[str, Any]] = {
    "plain": {},
    "parts": {"part_size": 2},
    "watched": {"handler_timeout": 60.0},
}


def test_the_span_of_an_event_says_all_and_belongs_to_the_trace_of_its_insert(
    queue, make, spans, producer
):
    event_id = producer.insert_event(QUEUE, "paid", "secret")
    queue.tick()
    run(make, spans, lambda event: None)
    (process,), (insert,) = spans.wait(PROCESS), spans.wait(INSERT)
    assert (parent(process), links(process)) == (place(insert.context), [place(insert.context)])
    assert process.kind is SpanKind.CONSUMER
    assert process.status.status_code is StatusCode.UNSET
    told = attributes(process)
    times = [told.pop(f"messaging.pgq.{name}_seconds") for name in TIMES]
    assert all(time >= 0 for time in times)
    assert told.pop("messaging.pgq.batch.id") > 0
    assert told.pop("messaging.pgq.tick.id") == queue.client.get_queue_info(QUEUE)[0].last_tick_id
    assert told == {
        "messaging.system": "pgq",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": QUEUE,
        "messaging.consumer.group.name": CONSUMER,
        "messaging.message.id": str(event_id),
        "messaging.pgq.delivery_attempt": 1,
        "messaging.pgq.event.type": "paid",
    }
    scope = process.instrumentation_scope
    assert (scope.name, scope.version) == ("pgqpy", pgqpy.__version__)


def test_the_three_times_add_up_to_the_time_from_insert_to_done(queue, make, spans):
    sql = queue.client.connection.execute
    call_for(queue, None)
    sql("update pgq.event_template set ev_time = now() - interval '5 hours'")
    sql("update pgq.tick set tick_time = tick_time - interval '2 hours'")
    inserted = sql("select extract(epoch from ev_time)::float8 from pgq.event_template").fetchone()
    run(make, spans, lambda event: None)
    (process,) = spans.wait(PROCESS)
    to_tick, to_open, to_done = (
        attributes(process)[f"messaging.pgq.{name}_seconds"] for name in TIMES
    )
    assert 10_000 < to_tick < 11_000
    assert to_open >= 7200
    ended = inserted[0] + to_tick + to_open + to_done
    assert process.start_time / 1e9 - 0.001 <= ended <= process.end_time / 1e9 + 0.001


def test_a_batch_has_one_span_that_links_to_each_context_of_its_events_once(
    queue, make, spans, producer
):
    producer.insert_events(QUEUE, [("t", "a"), ("t", "b")])
    producer.insert_event(QUEUE, "t", "c")
    call_for(queue, None, "wrong")
    run(make, spans, lambda event: None)
    (batch,), inserts = spans.wait(BATCH), spans.wait(INSERT, 2)
    assert links(batch) == [place(span.context) for span in inserts]
    told = attributes(batch)
    assert told["messaging.batch.message_count"] == 5
    assert (told["messaging.operation.name"], told["messaging.operation.type"]) == (
        "batch",
        "receive",
    )
    assert batch.kind is SpanKind.CLIENT
    assert {f"messaging.pgq.{name}_seconds" for name in TIMES} <= told.keys()
    ids = {attributes(span)["messaging.pgq.batch.id"] for span in spans.wait(PROCESS, 5)}
    assert ids == {told["messaging.pgq.batch.id"]}


def test_an_empty_batch_has_no_span(queue, make, spans):
    queue.tick()
    run(make, spans, lambda event: None)
    queue.wait_until_finished()
    queue.insert("a")
    (batch,) = spans.wait(BATCH)
    assert attributes(batch)["messaging.batch.message_count"] == 1


@pytest.mark.parametrize("mode", MODES)
def test_each_event_has_a_span_of_its_own_which_is_current_in_its_handler(
    queue, make, spans, producer, mode
):
    current: dict[str, str] = {}

    def handler(event: Any) -> None:
        current[str(event.id)] = place(get_current_span().get_span_context())

    for number in range(6):
        producer.insert_event(QUEUE, "t", str(number), f"key {number}")
    queue.tick()
    run(make, spans, handler, **MODES[mode])
    inserts = {attributes(each)["messaging.message.id"]: each for each in spans.wait(INSERT, 6)}
    processes = spans.wait(PROCESS, 6)
    ids = [attributes(span)["messaging.message.id"] for span in processes]
    assert sorted(ids) == sorted(inserts)
    for event_id, span in zip(ids, processes, strict=True):
        assert parent(span) == place(inserts[event_id].context)
        assert place(span.context) == current[event_id]


def test_a_consumer_that_is_not_traced_or_measured_calls_its_handler_directly(queue, make):
    running = make.start(lambda event: None)
    queue.insert("a")
    eventually(lambda: running.consumer.counts().events == 1)
    loop = private(running.consumer, "loop")
    assert loop.process_event == running.consumer.process_event
    assert loop.current.trace is None
    assert running.consumer.counts().times is None


def test_what_cannot_be_traced_is_refused(make):
    wrong: Any = "billing"
    with pytest.raises(TypeError, match="trace_consumer takes a consumer, not str"):
        trace_consumer(wrong)
    plain = make.consumer(lambda event: None)
    with pytest.raises(pgqpy.InvalidArgument) as refused:
        trace_consumer(plain, "ev_extra4")
    assert refused.value.parameter == "extra"
    filtered = make.consumer(lambda event: None, filter={"extra4": ["eu"]})
    with pytest.raises(ValueError, match="extra4"):
        trace_consumer(filtered)
