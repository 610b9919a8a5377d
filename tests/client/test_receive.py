"""Messages: claimed, and then done, retried, dead, released or extended, by both clients."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

import pgqpy
from pgqpy import errors
from tests.client.either import sql
from tests.client.test_transactions import turn
from tests.support.gates import wait_until_blocked

pytestmark = pytest.mark.usefixtures("billing_is_shared")

Connect = Callable[[], psycopg.Connection[Any]]
END = "update pgq.inflight set run_due = clock_timestamp() where run_token = {}"
OPEN = "select coalesce(sum(cardinality(run_ids)), 0) from pgq.inflight"


async def filled(client: Any, *data: str) -> None:
    for each in data:
        await client.insert_event("orders", "new", each, extra1=each[:1])
    await client.tick_queue("orders")


async def receive(client: Any, **arguments: Any) -> list[Any]:
    found: list[Any] = await client.receive("orders", "billing", **{"wait": 0, **arguments})
    return found


async def received(client: Any, **arguments: Any) -> list[tuple[str, int]]:
    """Return the data and the attempts of all that is there, claim by claim."""
    found = []
    while messages := await receive(client, **arguments):
        found += [(each.event.data, each.attempt) for each in messages]
    return found


async def finish(message: Any, method: str = "done", *arguments: Any, **more: Any) -> None:
    result = getattr(message, method)(*arguments, **more)
    if result is not None:
        await result


async def test_message_has_its_event_and_is_done_once(orders: Any) -> None:
    await receive(orders)
    await filled(orders, '{"a": 1}', "b")
    one, other = await receive(orders)
    assert (one.event.type, one.event.json(), one.attempt) == ("new", {"a": 1}, 1)
    assert one.event.time.utcoffset().total_seconds() == 0
    assert "attempt=1" in repr(one)
    await finish(one)
    with pytest.raises(errors.LeaseLost, match="no longer, claimed") as lost:
        await finish(one)
    assert lost.value.event_ids == [one.event.id]
    assert (lost.value.queue, lost.value.consumer) == ("orders", "billing")
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
    with pytest.raises(errors.ConsumerNotFound):
        await finish(message)


async def test_registered_consumer_gets_what_came_since(orders: Any) -> None:
    await filled(orders, "a")
    await orders.insert_event("orders", "new", "no tick has it yet")
    assert await received(orders) == [("a", 1), ("no tick has it yet", 1)]


async def test_retried_message_comes_again_and_a_dead_one_does_not(orders: Any) -> None:
    await filled(orders, "a", "b", "c", "d")
    a, b, c, d = await receive(orders)
    await finish(a, "retry", 0)
    await finish(b, "dead", ValueError("no"))
    await finish(c, "dead", "bad")
    await finish(d, "release")
    assert sorted(await received(orders)) == [("a", 2), ("d", 1)]
    dead = await orders.get_dead_events("orders", "billing")
    assert [(each.ev_data, each.dead_error) for each in dead] == [("c", None), ("b", "ValueError")]


async def test_events_of_a_key_come_one_after_the_other(orders: Any) -> None:
    await sql(orders, "select pgq.set_consumer_mode('orders', 'billing', 'shared', 'extra1')")
    await receive(orders, key="extra1")
    await filled(orders, "a1", "a2", "b1", "b2")
    firsts = [(await receive(orders, key="extra1", limit=1))[0] for _ in range(2)]
    a1, b1 = sorted(firsts, key=lambda message: str(message.event.data))
    assert (a1.event.data, b1.event.data) == ("a1", "b1")
    assert await receive(orders, key="extra1") == []
    await finish(a1)
    assert await received(orders, key="extra1") == [("a2", 1)]
    await finish(b1, "retry", 3600)
    assert await receive(orders, key="extra1") == []
    await filled(orders, "c1", "c2", "c3")
    c1, c2, c3 = await receive(orders, key="extra1")
    await finish(c1, "retry", 3600, keep_key=False)
    await finish(c2, "retry", 3600)
    with pytest.raises(errors.LeaseLost):
        await finish(c3)
    with pytest.raises(errors.WrongMode):
        await receive(orders, key="extra2")
    with pytest.raises(errors.InvalidArgument, match="no such key: nothing"):
        await receive(orders, key="nothing")


@pytest.mark.parametrize(
    ("method", "arguments"),
    [("done", ()), ("retry", (0,)), ("dead", ("why",)), ("release", ()), ("extend", (60,))],
)
async def test_message_of_an_ended_lease_is_lost_when_another_has_it(
    orders: Any, method: str, arguments: tuple[Any, ...]
) -> None:
    await receive(orders)
    await filled(orders, "a", "b")
    late, _ = await receive(orders)
    await sql(orders, END.format(late.token))
    assert await received(orders) == [("a", 2), ("b", 2)]
    with pytest.raises(errors.LeaseLost) as lost:
        await finish(late, method, *arguments)
    assert lost.value.event_ids == [late.event.id]
    assert await orders.get_dead_events("orders", "billing") == []
    assert await sql(orders, OPEN) == [(2,)]


async def test_lease_that_ended_is_good_while_nobody_has_the_message(orders: Any) -> None:
    await filled(orders, "a", "b")
    one, other = await receive(orders, lease=1)
    await sql(orders, END.format(one.token))
    await finish(one)
    await finish(other, "extend", 60)
    assert await receive(orders) == []
    await finish(other)


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


async def test_several_messages_are_done_in_one_round_trip(orders: Any) -> None:
    await filled(orders, *"abcde")
    messages = await receive(orders, limit=2) + await receive(orders, limit=2)
    await orders.done([])
    with pytest.raises(RuntimeError, match="undo"):
        async with orders.transaction():
            await orders.done(messages)
            raise RuntimeError("undo")
    await orders.done([*messages, *messages])
    assert await received(orders) == [("e", 1)]
    assert await sql(orders, OPEN) == [(1,)]


async def test_messages_that_are_lost_are_named_and_the_others_are_done(orders: Any) -> None:
    await receive(orders)
    await filled(orders, *"abcd")
    lost, kept = await receive(orders, limit=2), await receive(orders, limit=2)
    await sql(orders, END.format(lost[0].token))
    (_taken,) = await receive(orders, limit=1)
    with pytest.raises(errors.LeaseLost) as caught:
        await orders.done([kept[0], *lost, kept[1]])
    assert caught.value.event_ids == [message.event.id for message in lost]
    assert await sql(orders, OPEN) == [(2,)]


def test_threads_share_a_client(
    queue: pgqpy.Client,
    connect: Connect,
    connection: psycopg.Connection[Any],
    threads: ThreadPoolExecutor,
) -> None:
    queue.receive("orders", "billing", wait=0)
    queue.insert_events("orders", [("new", str(number)) for number in range(7)])
    messages = queue.receive("orders", "billing", wait=0)
    first, *others = messages
    with connect().transaction() as lock:
        lock.connection.execute(
            "select from pgq.inflight where run_token = %s for update", [first.token]
        )
        done = [threads.submit(first.done)]
        wait_until_blocked(connection, queue.connection.info.backend_pid)
        done += [threads.submit(message.done) for message in others]
    for each in done:
        each.result(30)
    assert connection.execute(OPEN).fetchone() == (0,)


async def test_task_that_is_cancelled_breaks_off_no_other(
    new_orders: str, dsn: str, connect: Connect, connection: psycopg.Connection[Any]
) -> None:
    async with await pgqpy.connect_async(dsn) as client:
        await filled(client, "a", "b")
        first, second = await client.receive("orders", "billing", wait=0)
        other = connect()
        with other.transaction():
            other.execute("select from pgq.inflight for update")
            one = asyncio.create_task(first.done())
            pid = client.connection.info.backend_pid
            await asyncio.to_thread(wait_until_blocked, connection, pid)
            two = asyncio.create_task(second.done())
            await turn()
            one.cancel()
            with pytest.raises(asyncio.CancelledError):
                await one
        await asyncio.wait_for(two, 30)
        assert connection.execute(OPEN).fetchone() == (1,)
        await first.done()


WRONG_ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"limit": 0}, "limit must be a number of events from 1 to 10000, not 0"),
    ({"limit": -1}, "limit must be .*, not -1"),
    ({"limit": 10_001}, "limit must be .*, not 10001"),
    ({"limit": 1_000_000}, "limit must be .*, not 1000000"),
    ({"limit": 2.5}, r"limit must be .*, not 2\.5"),
    ({"limit": True}, "limit must be .*, not True"),
    ({"lease": 0.5}, r"a lease of 00:00:00\.5: a lease takes a second to a day"),
    ({"lease": 0}, "a lease of 00:00:00: a lease takes a second to a day"),
    ({"lease": 86_401}, "a lease of .*: a lease takes a second to a day"),
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
        with pytest.raises(errors.InvalidArgument, match=r"seconds must |a lease takes"):
            await finish(message, "extend", seconds)
    await finish(message)


async def test_plain_consumer_is_refused_until_it_is_made_shared(orders: Any) -> None:
    await sql(orders, "select pgq.set_consumer_mode('orders', 'billing', 'plain')")
    with pytest.raises(errors.WrongMode, match=r"is not shared.*set_consumer_mode"):
        await receive(orders)
    await sql(orders, "select pgq.set_consumer_mode('orders', 'billing', 'shared')")
    await filled(orders, "b")
    assert await received(orders) == [("b", 1)]
    with pytest.raises(errors.WrongMode, match="is shared: its events are received"):
        await orders.next_batch("orders", "billing")


async def test_missing_queues_are_refused(orders: Any) -> None:
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
