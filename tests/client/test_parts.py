"""Parts of a batch: what finish_part refuses, on both clients."""

from __future__ import annotations

from typing import Any

import pytest

from pgqpy import BatchLost, InvalidArgument
from tests.client.conftest import next_batch

WRONG: list[tuple[Any, list[Any], str]] = [
    (0, [], "are finished already"),
    (-5, [], "are finished already"),
    (100, [], "event 100 lies beyond batch"),
    (None, [100], "event 100 lies beyond batch"),
    (None, [], "name the id up to which events are finished"),
    ("x", [], "event must be an int of 64 bits, not 'x'"),
    (2**70, [], "event must be an int of 64 bits"),
    (None, [None], "event must be an int of 64 bits, not None"),
]


async def test_a_part_that_makes_no_sense_is_refused(orders: Any) -> None:
    first = await orders.insert_event("orders", "t", "a")
    await orders.insert_event("orders", "t", "b")
    batch = await next_batch(orders)
    await orders.finish_part(batch, first)
    for up_to, done, message in WRONG:
        with pytest.raises(InvalidArgument, match=message) as caught:
            await orders.finish_part(batch, up_to, done)
        assert "\n" not in str(caught.value)
    assert [event.data async for event in orders.get_batch_events(batch)] == ["b"]


@pytest.mark.parametrize("known", [True, False])
async def test_a_part_of_a_lost_batch_is_refused(orders: Any, *, known: bool) -> None:
    event = await orders.insert_event("orders", "t", "a")
    batch = await next_batch(orders)
    await orders.finish_batch(batch)
    with pytest.raises(BatchLost) as caught:
        await orders.finish_part(batch if known else 999, event)
    assert caught.value.batch_id == (batch.id if known else 999)
