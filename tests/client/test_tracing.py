"""The spans of inserts, and the context that they store with the events."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import NoOpTracerProvider, SpanKind, StatusCode, TraceFlags

import pgqpy
from pgqpy.otel import insert_span, trace_client
from tests.client.either import Either, sql
from tests.support.spans import Spans, attributes, links, parent, place

INSERT = "insert orders"
CONTEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def spans():
    return Spans()


@pytest.fixture
def traced(orders, spans):
    """A client that traces its inserts."""
    trace(orders, spans.provider)
    return orders


def trace(client: Any, provider: Any, *extra: str) -> None:
    found = client._client if isinstance(client, Either) else client
    assert trace_client(found, *extra, tracer_provider=provider) is found


def stored(span: Any) -> str:
    return f"00-{place(span.context)}-{span.context.trace_flags:02x}"


async def test_an_insert_has_a_span_whose_context_is_stored(traced, spans, inserted):
    with spans.tracer.start_as_current_span("request") as request:
        event_id = await traced.insert_event("orders", "paid", {"order": 17}, extra1="eu")
    (span,) = spans.wait(INSERT)
    assert inserted() == [("paid", '{"order":17}', "eu", None, None, stored(span))]
    assert parent(span) == place(request.get_span_context())
    assert span.kind is SpanKind.PRODUCER
    assert attributes(span) == {
        "messaging.system": "pgq",
        "messaging.operation.name": "insert",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.message.id": str(event_id),
    }


async def test_what_the_application_stores_stays_and_a_context_is_linked(traced, spans, inserted):
    await traced.insert_event("orders", "a", None, None, None, None, CONTEXT)
    await traced.insert_event("orders", "b", None, extra4="mine")
    await traced.insert_event("orders", "c", None, None, None, None, None)
    first, second, third = spans.wait(INSERT, 3)
    assert [row[-1] for row in inserted()] == [CONTEXT, "mine", stored(third)]
    assert [links(span) for span in (first, second, third)] == [[CONTEXT[3:-3]], [], []]


async def test_another_field_may_hold_the_context(orders, spans, inserted):
    trace(orders, spans.provider, "extra1")
    await orders.insert_event("orders", "a", "x")
    await orders.insert_events("orders", [("b", "x"), ("c", "x", "mine")])
    one, many = spans.wait(INSERT, 2)
    assert [row[2] for row in inserted()] == [stored(one), stored(many), "mine"]


async def test_insert_event_once_says_whether_the_event_is_new(traced, spans):
    once = {"dedup_key": "17", "dedup_for": 3600}
    results = [await traced.insert_event_once("orders", "a", None, **once) for _ in range(2)]
    told = [attributes(span) for span in spans.wait(INSERT, 2)]
    assert [each["messaging.message.id"] for each in told] == [str(results[0].id)] * 2
    assert [each["messaging.pgq.is_new"] for each in told] == [True, False]


@pytest.mark.parametrize("options", [{}, {"returning_ids": True}, {"delay": 0}], ids=str)
async def test_many_events_get_the_context_of_one_span(traced, spans, inserted, options):
    event = pgqpy.Event(1, None, 1, None, "d", "x", extra4=CONTEXT)  # type: ignore[arg-type]  # time
    events = [("a", "x"), ["b", None, "eu"], {"type": "c", "data": {"n": 1}}, event]
    await traced.insert_events("orders", iter(events), **options)
    (span,) = spans.wait(INSERT)
    mine = stored(span)
    if "delay" not in options:
        assert inserted() == [
            ("a", "x", None, None, None, mine),
            ("b", None, "eu", None, None, mine),
            ("c", '{"n":1}', None, None, None, mine),
            ("d", "x", None, None, None, CONTEXT),
        ]
    assert attributes(span)["messaging.batch.message_count"] == 4
    assert "messaging.message.id" not in attributes(span)


async def test_an_async_iterable_of_events_gets_the_context(dsn, new_orders, spans, inserted):
    async def events():
        yield ("a", "x")

    async with await pgqpy.connect_async(dsn) as client:
        trace(client, spans.provider)
        assert await client.insert_events("orders", events=events()) == 1
    (span,) = spans.wait(INSERT)
    assert inserted() == [("a", "x", None, None, None, stored(span))]


async def test_errors_are_those_of_a_client_that_is_not_traced(traced, spans, inserted):
    with pytest.raises(pgqpy.InvalidEvent) as refused:
        await traced.insert_events("orders", [("a", "x"), ("b",)])
    assert refused.value.index == 1
    with pytest.raises(pgqpy.InvalidEvent, match="not int"):
        await traced.insert_events("orders", 17)
    with pytest.raises(pgqpy.QueueNotFound):
        await traced.insert_event("secret", "a", None)
    with pytest.raises(TypeError):
        await traced.insert_event(data=None)
    assert inserted() == []
    told = [*spans.wait(INSERT, 2), *spans.wait("insert secret"), *spans.wait("insert None")]
    types = [attributes(span)["error.type"].rpartition(".")[2] for span in told]
    assert types == ["InvalidEvent", "InvalidEvent", "QueueNotFound", "TypeError"]
    assert {span.status.status_code for span in told} == {StatusCode.ERROR}
    assert {span.status.description for span in told} == {None}
    assert [event for span in told for event in span.events] == []


async def test_without_an_sdk_nothing_is_stored(orders, inserted):
    trace(orders, NoOpTracerProvider())
    await orders.insert_event("orders", "a", None)
    await orders.insert_events("orders", [("b", None)])
    assert [row[-1] for row in inserted()] == [None, None]


async def test_a_trace_that_is_not_sampled_travels_as_such(orders, inserted):
    trace(orders, Spans(sampler=ALWAYS_OFF).provider)
    await orders.insert_event("orders", "a", None)
    flags = inserted()[0][-1].rpartition("-")[2]
    assert TraceFlags(int(flags, 16)).sampled is False


async def test_tracing_a_client_twice_makes_one_span(traced, spans):
    trace(traced, spans.provider)
    await traced.insert_event("orders", "a", None)
    spans.wait(INSERT)


async def test_a_client_that_is_not_traced_is_left_alone(orders, spans, inserted):
    async with await pgqpy.connect_async(orders.connection.info.dsn) as other:
        trace(other, spans.provider)
        await orders.insert_event("orders", "a", None)
    assert inserted()[0][-1] is None
    assert spans.names() == []


async def test_any_driver_may_store_the_context_of_a_span(orders, spans, inserted):
    with insert_span("orders", tracer_provider=spans.provider) as traceparent:
        query = "select pgq.insert_event('orders', 'a', 'x', null, null, null, %s)"
        await sql(orders, query, [traceparent])
    (span,) = spans.wait(INSERT)
    assert inserted()[0][-1] == traceparent == stored(span)


def test_only_clients_and_fields_of_events_are_taken(client):
    wrong: Any = "orders"
    with pytest.raises(TypeError, match="trace_client takes a client, not str"):
        trace_client(wrong)
    with pytest.raises(pgqpy.InvalidArgument) as refused:
        trace_client(client, "data")
    assert refused.value.parameter == "extra"


WITHOUT = """if True:
    import importlib, pkgutil, sys
    sys.modules["opentelemetry"] = None  # importing it raises
    import pgqpy
    for found in pkgutil.walk_packages(pgqpy.__path__, "pgqpy.", lambda name: None):
        if not found.name.startswith(("pgqpy.otel", "pgqpy.__main__")):
            importlib.import_module(found.name)
    try:
        import pgqpy.otel
    except pgqpy.MissingExtra as error:
        print(error)
"""


def test_nothing_else_imports_opentelemetry_and_without_it_the_extra_is_named() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], check=True, capture_output=True)
    assert done.stdout == b'opentelemetry-api is needed: pip install "pgqpy[otel]"\n'
