"""insert_event and its kin, on both clients."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import pgqpy
from pgqpy import (
    InvalidArgument,
    InvalidEvent,
    QueueNotFound,
)
from tests.client.conftest import next_batch
from tests.client.either import sql


async def test_insert_event_returns_ids_that_grow(orders: Any, inserted: Any) -> None:
    first = await orders.insert_event("orders", "paid", {"order": 1})
    second = await orders.insert_event("orders", "sent", b"x", "a", {"b": 2}, None, 4)
    assert second > first
    assert inserted() == [
        ("paid", '{"order":1}', None, None, None, None),
        ("sent", "x", "a", '{"b":2}', None, "4"),
    ]


TEXTS = [
    "",
    "%s %% %(x)s",
    'it\'s "so"',
    "\\N",
    "\\.",
    "a\tb\nc\rd\\e",
    "'; drop schema pgq; --",
    "\x7f\x01",
]


async def test_any_text_comes_back_as_it_went(orders: Any) -> None:
    for text in TEXTS:
        await orders.insert_event("orders", text, text, text)
        await orders.insert_events("orders", [(text, text, text), [text, text, text]])
    batch = await next_batch(orders)
    events = [event async for event in orders.get_batch_events(batch)]
    found = [(event.type, event.data, event.extra1) for event in events]
    assert found == [(text,) * 3 for text in TEXTS for _ in range(3)]


async def test_refused_field_is_named_and_nothing_is_sent(orders: Any, inserted: Any) -> None:
    for field in ("type", "data", "extra1", "extra2", "extra3", "extra4"):
        fields: dict[str, Any] = {"type": "paid", "data": "fine", field: "a\0b"}
        with pytest.raises(InvalidEvent) as caught:
            await orders.insert_event("orders", **fields)
        assert caught.value.field == field
    assert inserted() == []


async def test_unknown_queue(orders: Any) -> None:
    for insert in (
        lambda: orders.insert_event("nope", "t", "d"),
        lambda: orders.insert_events("nope", [("t", "d")]),
    ):
        with pytest.raises(QueueNotFound) as caught:
            await insert()
        assert caught.value.queue == "nope"
        assert caught.value.sqlstate == "PQ001"
        assert "nope" in str(caught.value)


async def test_name_that_is_no_text_is_refused_before_it_is_sent(orders: Any) -> None:
    for name in ("or\0ders", "\ud800", 17):
        with pytest.raises(InvalidArgument) as caught:
            await orders.insert_event(name, "t", "d")
        assert caught.value.parameter == "queue"
    assert await orders.insert_event("orders", "t", "d")


async def test_event_time_is_the_transactions_start(orders: Any) -> None:
    async with orders.transaction():
        ((now,),) = await sql(orders, "select now()")
        await orders.insert_event("orders", "t", "single")
        await orders.insert_events("orders", [("t", "bulk")])
    batch = await next_batch(orders)
    times = [event.time async for event in orders.get_batch_events(batch)]
    assert times == [now, now]
    assert datetime.now(timezone.utc) - now < timedelta(minutes=5)


def test_payload_limit_is_the_clients(dsn: str) -> None:
    with pgqpy.connect(dsn, payload_limit=3) as client:
        client.create_queue("orders")
        assert client.insert_event("orders", "t", "abc")
        for insert in (
            lambda: client.insert_event("orders", "t", "abcd"),
            lambda: client.insert_events("orders", [("t", "abcd")]),
            lambda: client.insert_events("orders", [["t", "abcd"]]),
        ):
            with pytest.raises(InvalidEvent, match="4 octets, over the limit of 3"):
                insert()
