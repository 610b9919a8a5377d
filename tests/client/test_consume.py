"""From next_batch to finish_batch, also of a part, and events that are hidden, on both clients."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from itertools import product
from typing import Any

import pytest

from pgqpy import Batch, BatchLost, ConsumerNotFound, InvalidArgument, QueueNotFound, calls
from pgqpy.records import BatchInfo, Cancellation
from tests.client.conftest import next_batch
from tests.client.either import sql
from tests.support.sqlstates import refused


async def events_of(client: Any, batch: Any, **kwargs: Any) -> list[Any]:
    return [event async for event in client.get_batch_events(batch, **kwargs)]


async def test_register_and_unregister_say_what_changed(orders: Any) -> None:
    for changed in (1, 0):
        assert await orders.register_consumer("orders", "audit") == changed
    for changed in (1, 0):
        assert await orders.unregister_consumer("orders", "audit") == changed
    with pytest.raises(QueueNotFound) as caught:
        await orders.register_consumer("nope", "audit")
    assert (caught.value.queue, caught.value.consumer) == ("nope", "audit")


async def test_register_at_a_tick_sees_what_came_after_it(orders: Any) -> None:
    await orders.insert_event("orders", "t", "before")
    tick = await orders.tick_queue("orders")
    await orders.insert_event("orders", "t", "after")
    await orders.tick_queue("orders")
    assert await orders.register_consumer_at("orders", "late", tick.tick_id) == 1
    batch = await orders.next_batch("orders", "late")
    assert [event.data for event in await events_of(orders, batch)] == ["after"]
    assert await orders.register_consumer_at("orders", "late", tick.tick_id) == 0
    again = await orders.next_batch("orders", "late")
    assert again.id != batch.id
    assert again.prev_tick_id == batch.prev_tick_id


async def test_register_at_a_tick_that_is_not_there(orders: Any) -> None:
    with refused("PQ005") as caught:
        await orders.register_consumer_at("orders", "late", 4711)
    assert caught.value.tick_id == 4711
    assert await orders.register_consumer_at("orders", "late", None) == 1


async def test_batch_names_itself_and_its_ticks(orders: Any) -> None:
    batch = await next_batch(orders, ("t", "d"))
    assert isinstance(batch, Batch)
    assert (batch.queue, batch.consumer) == ("orders", "billing")
    assert batch.prev_tick_id < batch.tick_id
    assert batch.prev_tick_time <= batch.tick_time
    assert batch.event_seq - batch.prev_event_seq == 1
    info = await orders.call(calls.consume.get_batch_info(batch))
    assert isinstance(info, BatchInfo)
    assert (info.queue_name, info.consumer_name) == ("orders", "billing")
    assert (info.prev_tick_id, info.tick_id) == (batch.prev_tick_id, batch.tick_id)
    assert info.lag >= timedelta(0)
    assert await orders.call(calls.consume.get_batch_info(batch.id + 1)) is None


async def test_finished_batch_is_followed_by_the_next(orders: Any) -> None:
    first = await next_batch(orders, ("t", "1"))
    await orders.finish_batch(first)
    assert await orders.next_batch("orders", "billing") is None
    second = await next_batch(orders, ("t", "2"))
    assert second.prev_tick_id == first.tick_id
    assert [event.data for event in await events_of(orders, second)] == ["2"]
    assert await orders.finish_batch(second.id) is None


async def test_number_that_no_column_holds_is_refused_by_name(orders: Any) -> None:
    huge = 2**63
    for call, parameter in (
        (lambda: orders.register_consumer_at("orders", "billing", huge), "tick"),
        (lambda: orders.event_retry(1, huge, 1), "event"),
        (lambda: orders.next_batch("orders", "billing", min_count=-1), "min_count"),
    ):
        with pytest.raises(InvalidArgument) as caught:
            await call()
        assert caught.value.parameter == parameter


async def test_next_batch_of_a_consumer_that_is_not_registered(orders: Any) -> None:
    for name in ("nope", "", "x" * 500, "bill\ning"):
        with pytest.raises(ConsumerNotFound) as caught:
            await orders.next_batch("orders", name)
        assert caught.value.consumer == name
        assert caught.value.queue == "orders"
        assert caught.value.sqlstate == "PQ002"


async def test_limits_hold_ticks_back_and_merge_them(orders: Any) -> None:
    for i in range(3):
        await orders.insert_event("orders", "t", str(i))
        await orders.tick_queue("orders")
    limits: list[dict[str, Any]] = [
        {"min_lag": timedelta(hours=1)},
        {"min_count": 4},
        {"min_interval": 3600},
    ]
    for each in limits:
        assert await orders.next_batch("orders", "billing", **each) is None
    batch = await orders.next_batch("orders", "billing", min_lag=0.0, min_count=3)
    assert len(await events_of(orders, batch)) == 3


ABSURD: list[tuple[dict[str, Any], str]] = [
    ({"min_lag": -1}, "min_lag"),
    ({"min_lag": timedelta(days=99_999)}, "min_lag"),
    ({"min_lag": float("nan")}, "min_lag"),
    ({"min_interval": float("inf")}, "min_interval"),
    ({"min_interval": timedelta(microseconds=-1)}, "min_interval"),
    ({"min_count": -1}, "min_count"),
    ({"min_count": 2**31}, "min_count"),
]


async def test_absurd_limit_is_refused(orders: Any, subtests: pytest.Subtests) -> None:
    for limits, parameter in ABSURD:
        with subtests.test(**limits):
            with pytest.raises(InvalidArgument) as caught:
                await orders.next_batch("orders", "billing", **limits)
            assert caught.value.parameter == parameter


async def test_batch_finished_twice_is_lost(orders: Any) -> None:
    batch = await next_batch(orders, ("t", "d"))
    await orders.finish_batch(batch)
    with pytest.raises(BatchLost) as caught:
        await orders.finish_batch(batch)
    assert caught.value.batch_id == batch.id
    with pytest.raises(BatchLost, match="No such batch is open, or another session holds it"):
        await orders.finish_batch(2**40)


async def test_what_is_no_batch_is_refused(orders: Any) -> None:
    refusing = (orders.finish_batch, lambda bad: orders.call(calls.consume.get_batch_info(bad)))
    for call, bad in product(refusing, ["7", 1.5, None, True, 2**63]):
        with pytest.raises(InvalidArgument) as caught:
            await call(bad)
        assert caught.value.parameter == "batch"


async def test_event_retry_gives_it_again_with_its_count(orders: Any) -> None:
    event_id = await orders.insert_event("orders", "t", "again")
    batch = await next_batch(orders)
    (event,) = await events_of(orders, batch)
    assert await orders.event_retry(batch, event, 0) == 1
    assert await orders.event_retry(batch.id, event.id, timedelta(hours=1)) == 0
    await orders.finish_batch(batch)
    assert await orders.call(calls.maintain.maint_retry_events()) == 1
    second = await next_batch(orders)
    (again,) = await events_of(orders, second)
    assert (again.id, again.retry, again.data) == (event_id, 1, "again")
    assert again.time == event.time


async def test_event_retry_waits_for_a_span_and_a_moment(orders: Any) -> None:
    batch = await next_batch(orders, ("t", "span"), ("t", "moment"))
    first, second = await events_of(orders, batch)
    ((moment,),) = await sql(orders, "select now() + interval '1 day'")
    async with orders.transaction():
        await orders.event_retry(batch, first, 86_400)
        await orders.event_retry(batch, second, moment)
    waits = await sql(
        orders,
        "select abs(extract(epoch from ev_retry_after - %s)) < 60 from pgq.retry_queue",
        (moment,),
    )
    assert waits == [(True,), (True,)]


async def test_event_retry_of_an_event_that_is_not_in_the_batch(orders: Any) -> None:
    batch = await next_batch(orders, ("t", "d"))
    with refused("PQ004") as caught:
        await orders.event_retry(batch, 4711, 1)
    assert (caught.value.batch_id, caught.value.event_id) == (batch.id, 4711)


async def test_retries_of_a_batch_that_is_gone(orders: Any) -> None:
    batch = await next_batch(orders, ("t", "d"))
    (event,) = await events_of(orders, batch)
    await orders.finish_batch(batch)
    for call in (
        lambda: orders.event_retry(batch, event, 1),
        lambda: orders.call(calls.consume.event_retry_many(batch, [(event, 1)])),
        lambda: orders.event_dead(batch, [(event, "why")]),
        lambda: orders.batch_retry(batch, 1),
        lambda: events_of(orders, batch),
        lambda: events_of(orders, batch.id),
    ):
        with pytest.raises(BatchLost) as caught:
            await call()
        assert caught.value.batch_id == batch.id
        assert caught.value.sqlstate == "PQ003"


ABSURD_DELAYS: list[Any] = [
    *(-1, math.nan, math.inf, timedelta(seconds=-1), timedelta.max, 10**12, 10**400, "1", []),
    *(Decimal("nan"), datetime(9000, 1, 1, tzinfo=timezone.utc)),
    None,  # never
    datetime.min,  # noqa: DTZ901  # naive: it has no time in UTC
]


async def test_absurd_delay_is_refused(orders: Any, subtests: pytest.Subtests) -> None:
    batch = await next_batch(orders, ("t", "d"))
    (event,) = await events_of(orders, batch)
    ways: list[Callable[[Any], Any]] = [
        lambda after: orders.event_retry(batch, event, after),
        lambda after: orders.call(calls.consume.event_retry_many(batch, [(event, after)])),
        lambda after: orders.batch_retry(batch, after),
    ]
    for way, after in product(ways, ABSURD_DELAYS):
        with subtests.test(reprlib.repr(after)):
            with pytest.raises(InvalidArgument) as caught:
                await way(after)
            assert caught.value.parameter == "after"
    assert await sql(orders, "select count(*) from pgq.retry_queue") == [(0,)]


async def test_batch_retry_rounds_a_fraction_up(orders: Any) -> None:
    batch = await next_batch(orders, ("t", "d"))
    async with orders.transaction():
        await orders.batch_retry(batch, 0.25)
        ((wait,),) = await sql(
            orders, "select extract(epoch from ev_retry_after - now()) from pgq.retry_queue"
        )
    assert wait == 1


WRONG: list[tuple[Any, str]] = [
    (0, "are finished already"),
    (-5, "are finished already"),
    (100, "event 100 lies beyond batch"),
    (None, "event must be an int of 64 bits, not None"),
    ("x", "event must be an int of 64 bits, not 'x'"),
    (2**70, "event must be an int of 64 bits"),
]


async def test_a_part_that_makes_no_sense_is_refused(orders: Any) -> None:
    first = await orders.insert_event("orders", "t", "a")
    batch = await next_batch(orders, ("t", "b"))
    await orders.finish_part(batch, first)
    for up_to, message in WRONG:
        with pytest.raises(InvalidArgument, match=message) as caught:
            await orders.finish_part(batch, up_to)
        assert "\n" not in str(caught.value)
    assert [event.data async for event in orders.get_batch_events(batch)] == ["b"]


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


async def test_cancelling_what_makes_no_sense_is_refused(orders: Any) -> None:
    with pytest.raises(QueueNotFound):
        await orders.cancel_event("nope", 1)
    with pytest.raises(ConsumerNotFound):
        await orders.skip_event("orders", "nobody", 1)
    for wrong in ("17", ["17"], True, 2**63, [None]):
        with pytest.raises(InvalidArgument):
            await orders.cancel_event("orders", wrong)
