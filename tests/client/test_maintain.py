"""Ticks, retries and rotation, on both clients."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from pgqpy import InvalidArgument, QueueNotFound
from pgqpy.records import Tick
from tests.client.either import sql
from tests.support.sqlstates import refused


async def test_ticker_ticks_by_the_queues_settings(orders: Any) -> None:
    await orders.set_queue_config("orders", "ticker_max_lag", "0 s")
    await orders.insert_event("orders", "t", "d")
    assert await sql(orders, "select * from pgq.ticker_due()") == [("orders",)]
    tick = await orders.ticker("orders")
    assert tick > 1
    await orders.insert_event("orders", "t", "d")
    assert await orders.ticker() == 1


async def test_ticker_that_is_not_due_says_none(orders: Any) -> None:
    await orders.tick_queue("orders")
    assert await orders.ticker("orders") is None
    assert await orders.ticker() == 0


async def test_ticker_of_an_unknown_queue(either: Any) -> None:
    with pytest.raises(QueueNotFound) as caught:
        await either.ticker("nope")
    assert caught.value.queue == "nope"
    assert await either.tick_queue("nope") is None
    assert await either.force_tick("nope") is None


async def test_external_tick_is_stored(orders: Any) -> None:
    await orders.set_queue_config("orders", "external_ticker", True)
    now = datetime.now(timezone.utc)
    assert await orders.ticker("orders", 100, now, 5000) == 100
    (info,) = await orders.get_queue_info("orders")
    assert info.last_tick_id == 100
    await orders.set_queue_config("orders", "external_ticker", False)
    with refused("PQ011"):
        await orders.ticker("orders", 101, now, 5001)


async def test_half_an_external_tick_is_refused(orders: Any) -> None:
    with pytest.raises(InvalidArgument, match="needs all of"):
        await orders.ticker("orders", 100, event_seq=5000)
    (info,) = await orders.get_queue_info("orders")
    assert info.last_tick_id == 1


async def test_tick_queue_returns_tick_and_snapshot(orders: Any) -> None:
    tick = await orders.tick_queue("orders")
    assert type(tick) is Tick
    assert len(tick.tick_snapshot.split(":")) == 3
    (info,) = await orders.get_queue_info("orders")
    assert info.last_tick_id == tick.tick_id
