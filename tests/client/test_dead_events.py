"""Many retries at once, and dead events, on both clients."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from pgqpy import ConsumerNotFound, Event, EventNotFound, InvalidArgument
from pgqpy.records import ConsumerCounts, DeadEvent
from tests.client.conftest import next_batch
from tests.client.either import sql


async def opened(client: Any, count: int) -> tuple[Any, list[Event]]:
    await client.insert_events("orders", [("t", str(i)) for i in range(count)])
    batch = await next_batch(client)
    return batch, [event async for event in client.get_batch_events(batch)]


async def test_many_events_are_retried_each_after_its_time(orders: Any) -> None:
    batch, events = await opened(orders, 4)
    tomorrow = datetime.now(timezone.utc) + timedelta(days=1)
    spans = [0, 0.0, timedelta(hours=1), tomorrow]
    assert await orders.event_retry_many(batch, zip(events, spans, strict=True)) == 4
    assert await orders.event_retry_many(batch, [(events[0], 5)]) == 0
    await orders.finish_batch(batch)
    assert await orders.maint_retry_events() == 2
    again = [event async for event in orders.get_batch_events(await next_batch(orders))]
    assert [(event.id, event.retry) for event in again] == [(e.id, 1) for e in events[:2]]


async def test_what_is_set_aside_is_counted_up_to_a_limit(orders: Any) -> None:
    await orders.register_consumer("orders", "audit")
    batch, (first, *others) = await opened(orders, 4)
    await orders.event_retry_many(batch, [(first, 60)])
    await orders.event_dead(batch, [(event, "bad") for event in others])
    assert await orders.get_consumer_counts() == [
        ConsumerCounts("orders", "audit", 0, 0),
        ConsumerCounts("orders", "billing", 1, 3),
    ]
    assert (await orders.get_consumer_counts(2))[1] == ("orders", "billing", 1, 2)
    assert (await orders.get_consumer_counts(None))[1] == ("orders", "billing", 1, 3)
    with pytest.raises(InvalidArgument):
        await orders.get_consumer_counts(-1)


async def test_moment_that_has_passed_is_now(orders: Any) -> None:
    batch, (event,) = await opened(orders, 1)
    naive = datetime(2020, 1, 1)  # noqa: DTZ001  # naive is the system's zone, as for psycopg
    assert await orders.event_retry_many(batch, [(event, naive)]) == 1
    await orders.finish_batch(batch)
    assert await orders.maint_retry_events() == 1


async def test_never_is_no_time_to_come_back(orders: Any) -> None:
    batch, (event,) = await opened(orders, 1)
    for call in (
        lambda: orders.event_retry(batch, event, None),
        lambda: orders.event_retry_many(batch, [(event, None)]),
        lambda: orders.batch_retry(batch, None),
    ):
        with pytest.raises(InvalidArgument) as caught:
            await call()
        assert caught.value.parameter == "after"
    assert await sql(orders, "select count(*) from pgq.retry_queue") == [(0,)]


async def test_no_retries_are_none(orders: Any) -> None:
    batch, _ = await opened(orders, 1)
    assert await orders.event_retry_many(batch, []) == 0
    assert await orders.event_dead(batch, []) == 0


async def test_one_foreign_event_and_none_is_retried(orders: Any) -> None:
    batch, events = await opened(orders, 2)
    foreign = events[1]._replace(id=4711)
    for call in (
        lambda: orders.event_retry_many(batch, [(events[0], 1), (foreign, 1)]),
        lambda: orders.event_dead(batch, [(events[0], "a"), (foreign, "b")]),
    ):
        with pytest.raises(EventNotFound) as caught:
            await call()
        assert caught.value.batch_id == batch.id
    assert await sql(orders, "select count(*) from pgq.retry_queue") == [(0,)]
    assert await orders.get_dead_events("orders", "billing") == []


async def test_an_id_alone_is_not_enough(orders: Any) -> None:
    batch, events = await opened(orders, 1)
    with pytest.raises(TypeError, match="Event is needed"):
        await orders.event_retry_many(batch, [(events[0].id, 1)])
    with pytest.raises(TypeError, match="Event is needed"):
        await orders.event_dead(batch, [(events[0].id, "why")])


async def test_dead_events_are_kept_with_their_reason(orders: Any) -> None:
    batch, events = await opened(orders, 3)
    reasons = ["one", None, "nul \0 and \ud800"]
    assert await orders.event_dead(batch, zip(events, reasons, strict=True)) == 3
    assert await orders.event_dead(batch, [(events[0], "again")]) == 0
    dead = await orders.get_dead_events("orders", "billing")
    assert all(type(event) is DeadEvent for event in dead)
    assert [event.ev_id for event in dead] == [event.id for event in events]
    assert [event.ev_data for event in dead] == ["0", "1", "2"]
    assert [event.dead_reason or "" for event in dead] == ["one", "", "nul \\0 and \\ud800"]


async def test_dead_events_are_revived_all_or_by_id(orders: Any) -> None:
    batch, events = await opened(orders, 3)
    await orders.event_dead(batch, [(event, "why") for event in events])
    await orders.finish_batch(batch)
    assert await orders.revive_dead_events("orders", "billing", [events[1].id]) == 1
    assert await orders.revive_dead_events("orders", "billing", []) == 0
    assert await orders.revive_dead_events("orders", "billing") == 2
    assert await orders.get_dead_events("orders", "billing") == []
    assert await orders.maint_retry_events() == 3
    again = [event async for event in orders.get_batch_events(await next_batch(orders))]
    assert [event.id for event in again] == [event.id for event in events]


async def test_dead_events_are_deleted_all_or_by_id(orders: Any) -> None:
    batch, events = await opened(orders, 3)
    await orders.event_dead(batch, [(event, "why") for event in events])
    assert await orders.delete_dead_events("orders", "billing", [events[0].id, 4711]) == 1
    assert await orders.delete_dead_events("orders", "billing") == 2
    assert await orders.get_dead_events("orders", "billing") == []


async def test_dead_events_of_an_unknown_consumer(orders: Any) -> None:
    for call in (
        orders.get_dead_events,
        orders.revive_dead_events,
        orders.delete_dead_events,
    ):
        with pytest.raises(ConsumerNotFound) as caught:
            await call("orders", "nope")
        assert caught.value.consumer == "nope"


async def test_spans_count_from_the_clock_in_a_long_transaction(orders: Any) -> None:
    batch, (event,) = await opened(orders, 1)
    async with orders.transaction():
        while await sql(orders, "select clock_timestamp() - now() < interval '0.2 s'") == [(True,)]:
            pass  # until the transaction has run for a while
        await orders.event_retry_many(batch, [(event, 0.1)])
        late = "select ev_retry_after - now() > interval '0.3 s' from pgq.retry_queue"
        assert await sql(orders, late) == [(True,)]
