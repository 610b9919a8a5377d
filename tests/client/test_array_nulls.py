"""Nulls in arrays, where a session has array_nulls off: the array's text has no nulls there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.client.conftest import next_batch
from tests.client.either import sql

EVENTS = [("a", "NULL", "1"), ("b", None), (None, "null", None, "2")]
STORED = [
    ("a", "NULL", "1", None, None, None),
    ("b", None, None, None, None, None),
    (None, "null", None, "2", None, None),
]


@pytest.fixture
async def no_nulls(orders: Any) -> Any:
    """The client, in a session whose arrays have no nulls."""
    await sql(orders, "set array_nulls = off")
    return orders


async def test_nulls_of_events_stay_nulls(no_nulls: Any, inserted: Any) -> None:
    await no_nulls.insert_events("orders", EVENTS, returning_ids=True)
    assert inserted() == STORED
    for field in range(2):  # an array of nulls alone
        event = [None if each == field else "x" for each in range(2)]
        await no_nulls.insert_events("orders", [event, event], returning_ids=True)
        assert [row[field] for row in inserted()[-2:]] == [None, None]


async def test_nulls_of_delayed_events_stay_nulls(no_nulls: Any) -> None:
    await no_nulls.insert_events("orders", EVENTS, delay=60)
    found = await no_nulls.get_delayed_events("orders")
    assert [tuple(event[4:]) for event in found] == STORED


async def test_a_dead_event_has_no_class_of_exception_where_none_was_raised(no_nulls: Any) -> None:
    batch = await next_batch(no_nulls, *[("t", None)] * 2)
    first, second = [event async for event in no_nulls.get_batch_events(batch)]
    await no_nulls.event_dead(batch, [(first, "bad"), (second, ValueError("worse"))])
    found = await no_nulls.get_dead_events("orders", "billing")
    assert [(dead.dead_error, dead.dead_reason, dead.dead_tries) for dead in reversed(found)] == [
        (None, "bad", 1),
        ("ValueError", "worse", 1),
    ]
