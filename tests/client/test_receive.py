"""Messages: leased, and then done, retried, dead or extended, by both clients."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

import pgqpy
from pgqpy import calls, errors
from tests.client.either import sql

END = "update pgq.position set pos_until = now() - interval '1 hour' where pos_batch = {}"


async def filled(client: Any, *data: str) -> None:
    for each in data:
        await client.insert_event("orders", "new", each)
    await client.tick_queue("orders")


async def receive(client: Any, **arguments: Any) -> list[Any]:
    found: list[Any] = await client.receive("orders", "billing", **{"wait": 0, **arguments})
    return found


async def finish(message: Any, method: str = "done", *arguments: Any) -> None:
    result = getattr(message, method)(*arguments)
    if result is not None:
        await result


async def test_message_has_its_event_and_is_done_once(orders: Any) -> None:
    await filled(orders, '{"a": 1}', "b")
    one, other = await receive(orders)
    assert (one.event.type, one.event.json(), one.attempt) == ("new", {"a": 1}, 1)
    assert one.event.time.utcoffset().total_seconds() == 0
    assert "attempt=1" in repr(one)
    await finish(one)
    with pytest.raises(errors.NotFound, match=r"event \d+ was finished before"):
        await finish(one)
    await finish(other)
    assert await receive(orders) == []


async def test_new_consumer_is_registered_and_gets_what_follows(orders: Any) -> None:
    arguments = ("orders", "new one")
    assert await orders.receive(*arguments, wait=0) == []
    await filled(orders, "a")
    (message,) = await orders.receive(*arguments, wait=0)
    assert message.event.data == "a"
    await orders.unregister_consumer(*arguments)
    with pytest.raises(errors.ConsumerNotFound):
        await orders.receive(*arguments, wait=0)
    with pytest.raises(errors.BatchLost):
        await finish(message)


async def test_retried_message_comes_again_and_a_dead_one_does_not(orders: Any) -> None:
    await filled(orders, "a", "b", "c")
    a, b, c = await receive(orders)
    await finish(a, "retry", 0)
    await finish(b, "dead", ValueError("no"))
    await finish(c, "dead", "bad")
    await orders.call(calls.maintain.maint_retry_events())
    await orders.tick_queue("orders")
    (again,) = await receive(orders)
    assert (again.event.data, again.attempt) == ("a", 2)
    await finish(again)
    dead = await orders.get_dead_events("orders", "billing")
    assert [(each.ev_data, each.dead_error) for each in dead] == [("c", None), ("b", "ValueError")]
    assert await sql(orders, "select count(*) from pgq.retry_queue") == [(0,)]


@pytest.mark.parametrize(
    ("method", "arguments"),
    [("done", ()), ("retry", (0,)), ("dead", ("why",)), ("extend", (60,))],
)
async def test_message_of_an_ended_lease_is_lost_when_another_has_it(
    orders: Any, method: str, arguments: tuple[Any, ...]
) -> None:
    await filled(orders, "a", "b")
    late, _ = await receive(orders)
    await sql(orders, END.format(late.batch_id))
    taken = await receive(orders)
    assert [(each.event.data, each.attempt) for each in taken] == [("a", 2), ("b", 2)]
    with pytest.raises(errors.BatchLost) as lost:
        await finish(late, method, *arguments)
    assert (lost.value.batch_id, lost.value.event_id) == (late.batch_id, late.event.id)
    assert await sql(orders, "select count(*) from pgq.retry_queue") == [(0,)]
    assert await orders.get_dead_events("orders", "billing") == []
    for each in taken:
        await finish(each)


async def test_extended_message_is_kept(orders: Any) -> None:
    await filled(orders, "a")
    (message,) = await receive(orders, lease=1)
    await sql(orders, END.format(message.batch_id))
    await finish(message, "extend", 60)
    assert await receive(orders) == []
    await finish(message)


async def test_done_in_a_transaction_commits_with_it(orders: Any) -> None:
    await filled(orders, "a")
    (message,) = await receive(orders)
    with pytest.raises(RuntimeError, match="undo"):
        async with orders.transaction():
            await finish(message)
            raise RuntimeError("undo")
    async with orders.transaction():
        await finish(message)
        with pytest.raises(errors.InvalidArgument, match="outside of transactions"):
            await receive(orders)
    assert await receive(orders) == []


async def test_retry_that_fails_in_its_middle_changes_nothing(orders: Any) -> None:
    await filled(orders, "a")
    (message,) = await receive(orders)
    refuse = "create function pg_temp.refuse() returns trigger language plpgsql as "
    refuse += "$$ begin raise exception 'power cut'; end $$"
    await sql(orders, refuse)
    trigger = "create trigger refuse before insert on pgq.position execute function pg_temp.refuse"
    await sql(orders, f"{trigger}()")
    with pytest.raises(errors.PgqError, match="power cut"):
        await finish(message, "retry", 0)
    await sql(orders, "drop trigger refuse on pgq.position")
    assert await sql(orders, "select count(*) from pgq.retry_queue") == [(0,)]
    await finish(message)


WRONG_ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"limit": 0}, "limit must be a number of events from 1 to 1000, not 0"),
    ({"limit": -1}, "limit must be .*, not -1"),
    ({"limit": 1001}, "limit must be .*, not 1001"),
    ({"limit": 1_000_000}, "limit must be .*, not 1000000"),
    ({"limit": 2.5}, r"limit must be .*, not 2\.5"),
    ({"limit": True}, "limit must be .*, not True"),
    ({"lease": 0.5}, "lease must be 1 second or more"),
    ({"lease": 0}, "lease must be 1 second or more"),
    ({"lease": 86_401}, "lease must be a day at most"),
    ({"lease": -1}, "lease must lie between"),
    ({"lease": math.nan}, "lease must be seconds or a timedelta, not nan"),
    ({"lease": 1e300}, "lease must lie between"),
    ({"lease": None}, "lease must be seconds or a timedelta"),
    ({"wait": -1}, "wait must lie between"),
    ({"wait": math.nan}, "wait must be seconds or a timedelta, not nan"),
    ({"wait": None}, "wait must be seconds or a timedelta, not None"),
]


async def test_arguments_that_make_no_sense_are_refused(
    orders: Any, subtests: pytest.Subtests
) -> None:
    for arguments, words in WRONG_ARGUMENTS:
        with subtests.test(**arguments):
            with pytest.raises(errors.InvalidArgument, match=words) as caught:
                await receive(orders, **arguments)
            assert "\n" not in str(caught.value)


async def test_lease_is_not_extended_by_less_than_a_second(orders: Any) -> None:
    await filled(orders, "a")
    (message,) = await receive(orders)
    for seconds in (0, 0.5, -1, math.nan, None):
        with pytest.raises(errors.InvalidArgument, match="seconds must "):
            await finish(message, "extend", seconds)
    await finish(message)


async def test_plain_consumers_and_missing_queues_are_refused(orders: Any) -> None:
    await filled(orders, "a")
    await orders.call(calls.share.set_consumer_mode("orders", "billing", "plain"))
    with pytest.raises(errors.WrongMode, match="billing is not shared"):
        await receive(orders)
    with pytest.raises(errors.QueueNotFound, match="no queue 'nothing'"):
        await orders.receive("nothing", "billing")


async def test_queue_that_is_dropped_ends_the_wait_with_its_error(orders: Any) -> None:
    assert await receive(orders) == []
    await orders.drop_queue("orders", force=True)
    with pytest.raises(errors.ConsumerNotFound, match="'billing' is not registered on"):
        await receive(orders, wait=60)


async def test_waits_of_one_client_leave_it_usable(new_orders: str, dsn: str) -> None:
    async with await pgqpy.connect_async(dsn) as client:
        waits = [
            asyncio.create_task(client.receive("orders", "billing", limit=1, wait=60))
            for _ in range(3)
        ]
        await filled(client, "a", "b", "c")
        received = await asyncio.wait_for(asyncio.gather(*waits), 30)
        messages = [message for (message,) in received]
        for message in messages:
            await message.done()
        assert sorted(message.event.data or "" for message in messages) == ["a", "b", "c"]
        assert await client.receive("orders", "billing", wait=0.1) == []
