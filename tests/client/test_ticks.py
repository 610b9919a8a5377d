"""Ranges of ticks, on both clients."""

from __future__ import annotations

from typing import Any

import pytest

from pgqpy import (
    ConsumerNotFound,
    ConsumerRunning,
    InvalidArgument,
    NotFound,
    QueueNotFound,
    RangeExpired,
    calls,
)
from tests.client.either import sql
from tests.client.test_reading import OPEN


async def filled(client: Any, ticks: int = 5, events: int = 3) -> list[int]:
    """Let so many ticks follow the first, with so many events after each; return the ticks."""
    for _ in range(ticks):
        await client.insert_events("orders", [("t", "d")] * events)
        await client.tick_queue("orders")
    return [tick.tick_id for tick in await client.call(calls.ticks.get_tick_info("orders"))]


async def ids(client: Any, first: int, last: int, **kwargs: Any) -> list[int]:
    return [event.id async for event in client.get_tick_events("orders", first, last, **kwargs)]


async def open_cursors(client: Any) -> int:
    return int((await sql(client, OPEN))[0][0])


async def test_ticks_are_listed_with_what_they_know(orders: Any) -> None:
    assert await filled(orders, 2) == [1, 2, 3]
    first, second, third = await orders.call(calls.ticks.get_tick_info("orders"))
    assert [each.tick_event_seq for each in (first, second, third)] == [0, 3, 6]
    assert [each.events for each in (first, second, third)] == [None, 3, 3]
    assert first.tick_time < second.tick_time
    xmin, xmax, _ = second.tick_snapshot.split(":")
    assert int(xmin) <= int(xmax)
    assert [each.tick_id for each in await orders.call(calls.ticks.get_tick_info("orders", 2))] == [
        2,
        3,
    ]
    assert await orders.call(calls.ticks.get_tick_info("orders", to_tick=1)) == [first]
    with pytest.raises(QueueNotFound) as caught:
        await orders.call(calls.ticks.get_tick_info("nope"))
    assert caught.value.queue == "nope"


async def test_a_range_can_be_shared_by_its_stages(orders: Any) -> None:
    (first,) = await filled(orders, 0)
    async with orders.transaction():
        stage = await orders.call(calls.produce.open_stage("orders", "nightly", 1))
        await orders.insert_events("orders", [("t", "staged")] * 2)
    await orders.insert_event("orders", "t", "plain")
    await orders.call(calls.produce.commit_stage("orders", "nightly", 1, [stage], 2))
    _, last = await filled(orders, 1, 0)
    (found,) = await orders.call(calls.ticks.get_tick_stages("orders", first, last))
    assert (found.stage, found.events) == (stage, 2)
    for stages, datas in (([stage], {"staged"}), ([], {"plain"}), (None, {"staged", "plain"})):
        query = await orders.call(calls.ticks.tick_event_sql("orders", first, last, stages))
        assert {data for (data,) in await sql(orders, f"select ev_data from ({query}) e")} == datas
    with pytest.raises(InvalidArgument, match="not all of these stages"):
        await orders.call(calls.ticks.tick_event_sql("orders", first, last, [stage, 1]))


async def test_query_of_a_range_may_choose_types(orders: Any) -> None:
    for kind in ("a.b", "c"):
        await orders.insert_event("orders", kind, kind)
    last = (await orders.tick_queue("orders")).tick_id
    query = await orders.call(calls.ticks.tick_event_sql("orders", 1, last, types=["a.*"]))
    assert await sql(orders, f"select ev_data from ({query}) e") == [("a.b",)]


async def test_events_of_a_range_come_by_id_whatever_the_fetch_size(orders: Any) -> None:
    await filled(orders)
    for size in (1, 4, 6, 100):
        assert await ids(orders, 2, 4, fetch_size=size) == [4, 5, 6, 7, 8, 9]
        async with orders.transaction():
            assert await ids(orders, 2, 4, fetch_size=size) == [4, 5, 6, 7, 8, 9]
            assert await open_cursors(orders) == 0
        assert await ids(orders, 3, 3, fetch_size=size) == []
        assert await open_cursors(orders) == 0


async def test_events_of_a_range_are_those_of_its_batch(orders: Any) -> None:
    await filled(orders, 1)
    batch = await orders.next_batch("orders", "billing")
    events = [event async for event in orders.get_batch_events(batch)]
    found = orders.get_tick_events("orders", batch.prev_tick_id, batch.tick_id)
    assert [event async for event in found] == events


@pytest.mark.parametrize("move", [calls.ticks.pin_range, calls.ticks.advance_subscription])
async def test_subscription_that_is_elsewhere_says_where(orders: Any, move: Any) -> None:
    await filled(orders)
    assert await orders.call(move("orders", "billing", 1, 4)) == 1
    assert await orders.call(move("orders", "billing", 1, 4)) == 0
    await orders.call(calls.ticks.advance_subscription("orders", "billing", 1, 4))
    with pytest.raises(ConsumerRunning, match="a consumer of its own") as caught:
        await orders.call(move("orders", "billing", 2, 5))
    assert caught.value.tick_id == 4
    assert (caught.value.queue, caught.value.consumer) == ("orders", "billing")
    with pytest.raises(ConsumerNotFound):
        await orders.call(move("orders", "nobody", 2, 5))
    with pytest.raises(InvalidArgument):
        await orders.call(move("orders", "billing", 5, 4))


async def test_expired_range_says_what_is_left(orders: Any) -> None:
    await filled(orders)
    await sql(orders, "update pgq.queue set queue_low_tick = 4 returning 1")
    for call in (ids(orders, 2, 6), orders.call(calls.ticks.tick_event_sql("orders", 2, 6))):
        with pytest.raises(RangeExpired, match="ticks 4 to 6 are left") as caught:
            await call
        assert caught.value.queue == "orders"
        assert caught.value.tick_id == 2
        assert (caught.value.first_tick, caught.value.last_tick) == (4, 6)
    assert await open_cursors(orders) == 0


async def test_tick_that_is_not_there_is_named(orders: Any) -> None:
    await filled(orders)
    with pytest.raises(NotFound, match="in the future") as caught:
        await ids(orders, 2, 9)
    assert caught.value.tick_id == 9
    async with orders.transaction():
        with pytest.raises(QueueNotFound):
            async with orders.transaction():
                [event async for event in orders.get_tick_events("nope", 1, 2)]
        assert await orders.call(calls.ticks.get_tick_info("orders", 6)) != []


async def test_tick_is_an_int_of_64_bits(orders: Any) -> None:
    wrong: list[Any] = [2**63, "1", None, True]
    for tick in wrong:
        with pytest.raises(InvalidArgument):
            await orders.call(calls.ticks.tick_event_sql("orders", tick, 2))
        with pytest.raises(InvalidArgument):
            await ids(orders, tick, 2)


async def test_some_ticks_picture_them_all(orders: Any) -> None:
    await filled(orders, 4)
    marks = await orders.call(calls.ticks.get_tick_marks("orders", 3))
    assert [marks[0].id, marks[-1].id, marks[-1].event_seq] == [1, 5, 12]
    assert [mark.time for mark in marks] == sorted(mark.time for mark in marks)
    assert len(await orders.call(calls.ticks.get_tick_marks("orders"))) == 5
    with pytest.raises(QueueNotFound):
        await orders.call(calls.ticks.get_tick_marks("nope"))
    with pytest.raises(InvalidArgument):
        await orders.call(calls.ticks.get_tick_marks("orders", 1))


async def test_tables_of_a_queue_are_records(orders: Any) -> None:
    tables = await orders.call(calls.admin.get_rotation_info("orders"))
    assert [(table.number, table.state) for table in tables] == [
        (0, "current"),
        (1, "next"),
        (2, "older"),
    ]
    assert tables[1].held_by is None
    assert tables[1].due is not None
    with pytest.raises(QueueNotFound):
        await orders.call(calls.admin.get_rotation_info("nope"))
