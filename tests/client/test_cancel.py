"""The client's methods that hide events."""

from __future__ import annotations

from typing import Any

import pytest

from pgqpy.errors import ConsumerNotFound, InvalidArgument, QueueNotFound
from pgqpy.records import Cancellation
from tests.client.conftest import next_batch


async def test_events_are_cancelled_for_all_or_skipped_for_one(orders: Any) -> None:
    ids = [await orders.insert_event("orders", "t", data) for data in "abc"]
    await orders.tick_queue("orders")
    await orders.register_consumer("orders", "mailer")
    assert await orders.cancel_event("orders", ids[0]) == [
        Cancellation(ids[0], "billing", "cancelled"),
        Cancellation(ids[0], "mailer", "delivered"),
    ]
    batch = await next_batch(orders)
    events = [event async for event in orders.get_batch_events(batch)]
    assert [event.data for event in events] == ["b", "c"]
    told = await orders.skip_event("orders", "billing", [events[0], 99])
    assert [(each.id, each.state) for each in told] == [(ids[1], "delivered"), (99, "unknown")]
    assert await orders.cancel_event("orders", ()) == []


async def test_what_makes_no_sense_is_refused(orders: Any) -> None:
    with pytest.raises(QueueNotFound):
        await orders.cancel_event("nope", 1)
    with pytest.raises(ConsumerNotFound):
        await orders.skip_event("orders", "nobody", 1)
    for wrong in ("17", ["17"], True, 2**63, [None]):
        with pytest.raises(InvalidArgument):
            await orders.cancel_event("orders", wrong)
