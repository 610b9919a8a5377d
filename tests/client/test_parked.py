"""The client's methods for parked events."""

from __future__ import annotations

from typing import Any

import pytest

from pgqpy import calls
from pgqpy.errors import ConsumerNotFound, InvalidArgument
from tests.client.either import sql

WHERE = ("orders", "billing")
PARK = """
    select pgq.event_park(%s, array_agg(ev_id order by ev_id), array_agg(ev_txid order by ev_id),
        '{a,a,b}', '{1 h,null,1 h}', '{E,null,E}', '{why,null,why}')
    from pgq.get_batch_events(%s)
"""


async def parked(orders: Any) -> list[int]:
    """Park two events of the key a, and one of b; return their ids."""
    ids = [await orders.insert_event("orders", "t", data) for data in "aab"]
    await orders.tick_queue("orders")
    batch = await orders.next_batch(*WHERE)
    await sql(orders, PARK, [batch.id, batch.id])
    await orders.finish_batch(batch)
    return ids


async def test_parked_keys_are_listed_retried_and_deleted(orders: Any) -> None:
    ids = await parked(orders)
    first, second = await orders.call(calls.parked.get_parked(*WHERE))
    assert (first.park_key, first.events, first.ev_id) == ("a", 2, ids[0])
    assert (first.park_error, first.park_reason, first.ev_retry) == ("E", "why", 1)
    assert await orders.call(calls.parked.get_parked(*WHERE, ["b"], limit=1)) == [second]
    assert await orders.call(calls.parked.retry_parked(*WHERE, ["a"])) == 1
    assert await orders.call(calls.parked.retry_parked(*WHERE)) == 1
    assert await orders.call(calls.parked.delete_parked(*WHERE, ["a"])) == ids[:1]
    left = {
        each.park_key: (each.ev_id, each.events)
        for each in await orders.call(calls.parked.get_parked(*WHERE))
    }
    assert left == {"a": (ids[1], 1), "b": (ids[2], 1)}


async def test_what_makes_no_sense_is_refused(orders: Any) -> None:
    with pytest.raises(ConsumerNotFound):
        await orders.call(calls.parked.get_parked("orders", "nobody"))
    with pytest.raises(TypeError, match="list of texts"):
        await orders.call(calls.parked.retry_parked(*WHERE, "a"))
    with pytest.raises(InvalidArgument):
        await orders.call(calls.parked.delete_parked(*WHERE, ["\0"]))
