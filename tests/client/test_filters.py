"""The filter of a consumer, set by the client."""

from __future__ import annotations

from typing import Any

import pytest

from pgqpy import ConsumerNotFound, InvalidArgument, calls


async def taken(orders):
    """Insert events of three types, tick, and return the data that the consumer gets."""
    for number, (kind, extra) in enumerate([("a.b", "eu"), ("a.c", "us"), ("d", "eu")]):
        await orders.insert_event("orders", kind, str(number), extra1=extra)
    await orders.tick_queue("orders")
    batch = await orders.next_batch("orders", "billing")
    found = [event.data async for event in orders.get_batch_events(batch)]
    await orders.finish_batch(batch)
    return found


async def test_consumer_takes_some_events_only(orders):
    assert await orders.set_consumer_filter("orders", "billing", types=["a.*"]) == 1
    assert await taken(orders) == ["0", "1"]
    extras = {"extra1": ("eu", "fr")}
    assert await orders.set_consumer_filter("orders", "billing", extras=extras) == 1
    assert await taken(orders) == ["0", "2"]
    (info,) = await orders.call(calls.admin.get_registrations("orders", "billing"))
    assert info.filter == {"extra1": ["eu", "fr"]}
    assert await orders.set_consumer_filter("orders", "billing") == 1
    assert await taken(orders) == ["0", "1", "2"]


async def test_same_filter_in_another_order_changes_nothing(orders):
    extras = {"extra2": ["x"]}
    wanted = orders.set_consumer_filter
    assert await wanted("orders", "billing", types=["b", "a"], extras=extras) == 1
    assert await wanted("orders", "billing", types=["a", "b"], extras=extras) == 0


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"types": "order.*"}, "types must be a list of texts"),
    ({"types": {"order.*"}}, "types must be a list of texts"),
    ({"types": [1]}, "types must be a str, not int"),
    ({"types": ["a\0"]}, "NUL"),
    ({"types": ["\ud800"]}, "lone surrogate"),
    ({"types": []}, "no event would pass"),
    ({"types": ["a*b"]}, "may only end a type"),
    ({"extras": ["extra1"]}, "extras must be a mapping"),
    ({"extras": {"extra1": "eu"}}, "extra1 must be a list of texts"),
    ({"extras": {"extra5": ["eu"]}}, "conditions are types, extra1"),
]


async def test_filter_that_makes_no_sense_is_refused(orders):
    for wanted, message in WRONG:
        with pytest.raises(InvalidArgument, match=message):
            await orders.set_consumer_filter("orders", "billing", **wanted)


async def test_filter_of_an_unknown_consumer_is_refused(orders):
    with pytest.raises(ConsumerNotFound):
        await orders.set_consumer_filter("orders", "nobody", types=["a"])


def test_filter_is_described_in_words():
    words = calls.filters.describe_filter(["order.*", "invoice"], {"extra1": ["eu"]})
    assert words == "types order.*, invoice; extra1 eu"
    assert calls.filters.describe_filter(None, None) == "all events"
