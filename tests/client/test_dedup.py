"""insert_event with a key, and insert_event_once, on both clients."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from pgqpy import InvalidArgument, InvalidEvent, QueueNotFound

HOUR = {"dedup_key": "k", "dedup_for": timedelta(hours=1)}


async def test_second_insert_returns_the_first_id_and_inserts_nothing(
    orders: Any, inserted: Any
) -> None:
    first = await orders.insert_event("orders", "a", {"x": 1}, "e1", extra4=4, **HOUR)
    assert await orders.insert_event("orders", "b", None, dedup_key="k", dedup_for=60) == first
    again = await orders.insert_event_once("orders", "c", None, **HOUR)
    assert (again.id, again.is_new) == (first, False)
    other = await orders.insert_event_once("orders", "d", "x", dedup_key="l", dedup_for=0.5)
    assert (other.id, other.is_new) == (first + 1, True)
    assert inserted() == [
        ("a", '{"x":1}', "e1", None, None, "4"),
        ("d", "x", None, None, None, None),
    ]


async def test_delayed_event_may_have_a_key(orders: Any, inserted: Any) -> None:
    far = datetime(2099, 1, 1, tzinfo=timezone.utc)
    first = await orders.insert_event("orders", "a", "x", deliver_at=far, **HOUR)
    again = await orders.insert_event_once("orders", "b", None, "1", delay=60, **HOUR)
    assert (again.id, again.is_new) == (first, False)
    other = await orders.insert_event_once(
        "orders", "c", "y", extra4="4", delay=timedelta(hours=1), dedup_key="l", dedup_for=60
    )
    waiting = await orders.get_delayed_events("orders")
    assert [(event.ev_id, event.ev_data, event.ev_extra4) for event in waiting] == [
        (other.id, "y", "4"),
        (first, "x", None),
    ]
    assert waiting[1].ev_deliver_at == far
    assert inserted() == []
    with pytest.raises(InvalidArgument, match="exclude each other"):
        await orders.insert_event("orders", "a", "x", deliver_at=far, delay=1, **HOUR)


@pytest.mark.parametrize(
    ("wrong", "parameter"),
    [
        ({"dedup_key": "k"}, "dedup_for"),
        ({"dedup_for": 60}, "dedup_key"),
        ({"dedup_key": "a\0", "dedup_for": 60}, "dedup_key"),
        ({"dedup_key": 17, "dedup_for": 60}, "dedup_key"),
        ({"dedup_key": "k", "dedup_for": "1 h"}, "dedup_for"),
        ({"dedup_key": "k", "dedup_for": -1}, "dedup_for"),
    ],
)
async def test_wrong_key_or_time_is_named(orders: Any, wrong: Any, parameter: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await orders.insert_event("orders", "a", None, **wrong)
    assert caught.value.parameter == parameter


@pytest.mark.parametrize("wrong", [{"dedup_key": ""}, {"dedup_key": "é" * 501}, {"dedup_for": 0}])
async def test_key_or_time_that_the_server_refuses(orders: Any, wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"give (a key of 1 to 1,000 octets|an interval)"):
        await orders.insert_event("orders", "a", None, **{**HOUR, **wrong})


async def test_refused_field_and_unknown_queue_are_named(orders: Any) -> None:
    with pytest.raises(InvalidEvent) as caught:
        await orders.insert_event_once("orders", "a", "x", extra3="a\0", **HOUR)
    assert caught.value.field == "extra3"
    with pytest.raises(QueueNotFound):
        await orders.insert_event_once("nope", "a", "x", **HOUR)
