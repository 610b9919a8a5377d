"""get_retry_counts, by both clients."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pgqpy import ConsumerNotFound, InvalidArgument, calls


async def test_retried_events_are_counted_by_when_they_are_due(orders: Any) -> None:
    await orders.insert_events("orders", [("t", str(number)) for number in range(2)])
    await orders.tick_queue("orders")
    batch = await orders.next_batch("orders", "billing")
    events = [event async for event in orders.get_batch_events(batch)]
    await orders.call(
        calls.consume.event_retry_many(batch, zip(events, (0, 3600 * 48), strict=True))
    )
    counts = await orders.call(calls.admin.get_retry_counts("orders", "billing"))
    assert counts == [(timedelta(0), 1), (None, 1)]
    with pytest.raises(ConsumerNotFound):
        await orders.call(calls.admin.get_retry_counts("orders", "nobody"))
    with pytest.raises(InvalidArgument):
        await orders.call(calls.admin.get_retry_counts("orders", "billing", -1))
