"""The loop of a receiver: what is done is ended in the round trip that claims the next events."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import psycopg
import pytest

import pgqpy
from pgqpy import errors
from tests.client.either import sql
from tests.client.test_receive import END, OPEN, filled, received

pytestmark = pytest.mark.usefixtures("billing_is_shared")

TOKEN = "select max(run_token) from pgq.inflight"


async def loop(client: Any, count: int, **arguments: Any) -> list[str]:
    """Handle so many events, and leave the block."""
    found = []
    async with client.receiver("orders", "billing", **arguments) as r:
        async for event in r:
            found.append(event.data)
            r.done(event)
            if len(found) == count:
                break
    return found


async def state(client: Any) -> list[tuple[int, int]]:
    """Return whether runs are claimed, or else their state, and how often they were."""
    query = "select sign(run_token) * least(abs(run_token), 9), run_attempts from pgq.inflight"
    return await sql(client, f"{query} order by run_ids")


@pytest.mark.parametrize("limit", [1, 2, 10])
async def test_the_loop_handles_all_and_leaves_nothing_behind(orders: Any, limit: int) -> None:
    await filled(orders, *"abcde")
    assert await loop(orders, 5, limit=limit) == list("abcde")
    assert await sql(orders, OPEN) == [(0,)]


async def test_an_event_is_ended_and_the_next_is_claimed_in_one_round_trip(
    orders: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(orders, *"abc")
    calls = []
    client = getattr(orders, "_client", orders)
    run = client.runner.run

    def noted(call: Any) -> Any:
        calls.append(call.function)
        return run(call)

    monkeypatch.setattr(client.runner, "run", noted)
    assert await loop(orders, 3) == list("abc")
    expected = ["receive", "done_receive", "done_receive", "done"]
    assert calls[-4:] == expected


async def test_leaving_the_block_returns_what_is_not_done_at_once(orders: Any) -> None:
    await filled(orders, *"abcd")
    with pytest.raises(ZeroDivisionError):
        async with orders.receiver("orders", "billing", limit=4) as r:
            async for event in r:
                if event.data == "c":
                    raise ZeroDivisionError
                if event.data == "a":
                    r.done(event)
    assert sorted(await received(orders)) == [("b", 2), ("c", 2), ("d", 1)]  # d was not begun


async def test_an_error_of_the_block_is_not_hidden_by_that_of_a_lost_connection(
    orders: Any,
) -> None:
    await filled(orders, "a")
    with pytest.raises(ZeroDivisionError):
        async with orders.receiver("orders", "billing") as r:
            await r.__anext__()
            with suppress(psycopg.Error):
                await sql(orders, "select pg_terminate_backend(pg_backend_pid())")
            raise ZeroDivisionError


async def test_an_event_that_ends_the_block_each_time_counts_its_attempts(orders: Any) -> None:
    await filled(orders, "a")
    attempts = []
    for _ in range(3):
        async with orders.receiver("orders", "billing") as r:
            event = await r.__anext__()
            attempts.append(r.attempt)
    assert attempts == [1, 2, 3]
    async with orders.receiver("orders", "billing") as r:
        async for event in r:
            await r.dead(event, "it ends the program")
            break
    assert await sql(orders, OPEN) == [(0,)]


async def test_events_of_several_claims_are_returned(orders: Any) -> None:
    await filled(orders, *"abc")
    async with orders.receiver("orders", "billing") as r:
        for _ in range(3):
            await r.__anext__()
    assert sorted(await received(orders)) == [("a", 2), ("b", 2), ("c", 2)]


async def test_an_event_that_others_may_have_is_not_returned(orders: Any) -> None:
    await filled(orders, "a")
    async with orders.receiver("orders", "billing") as r:
        await r.__anext__()
        ((token,),) = await sql(orders, TOKEN)
        await sql(orders, END.format(token))
        assert await received(orders) == [("a", 2)]
    assert await state(orders) == [(9, 2)]


async def test_returned_events_of_a_key_keep_their_order(orders: Any) -> None:
    await sql(orders, "select pgq.set_consumer_mode('orders', 'billing', 'shared', 'extra1')")
    async with orders.receiver("orders", "billing", key="extra1", limit=4) as r:
        await filled(orders, "a1", "a2", "a3", "b1")
        assert [(await r.__anext__()).data for _ in range(2)] == ["a1", "a2"]
    assert await received(orders, key="extra1") == [("a1", 2), ("a2", 2), ("b1", 1)]


async def test_a_retried_event_keeps_those_of_its_key(orders: Any) -> None:
    await sql(orders, "select pgq.set_consumer_mode('orders', 'billing', 'shared', 'extra1')")
    async with orders.receiver("orders", "billing", key="extra1", limit=6) as r:
        await filled(orders, "a1", "a2", "a3", "b1", "c1", "c2")
        r.done(await r.__anext__())
        await r.retry(await r.__anext__(), 3600)
        b1, c1 = await r.__anext__(), await r.__anext__()
        assert (b1.data, c1.data) == ("b1", "c1")
        await r.dead(b1, "bad")
        await r.retry(c1, 3600, keep_key=False)
        c2 = await r.__anext__()
        assert (c2.data, r.attempt) == ("c2", 1)
        r.done(c2)
    assert await received(orders, key="extra1") == []
    assert await state(orders) == [(-1, 1), (-2, 0), (-1, 1)]
    (dead,) = await orders.get_dead_events("orders", "billing")
    assert (dead.ev_data, dead.dead_reason) == ("b1", "bad")


async def test_events_of_several_claims_are_done_together(orders: Any) -> None:
    await filled(orders, *"abc")
    async with orders.receiver("orders", "billing") as r:
        for event in [await r.__anext__() for _ in range(2)]:
            r.done(event)
        r.done(await r.__anext__())
    assert await sql(orders, OPEN) == [(0,)]


async def test_a_lost_lease_is_told_and_the_loop_can_go_on(orders: Any) -> None:
    await filled(orders, *"ab")
    async with orders.receiver("orders", "billing") as r:
        a = await r.__anext__()
        ((token,),) = await sql(orders, TOKEN)
        await sql(orders, END.format(token))
        assert await received(orders) == [("b", 1), ("a", 2)]
        r.done(a)
        with pytest.raises(errors.LeaseLost, match="has ended") as lost:
            await r.__anext__()
        assert lost.value.event_ids == [a.id]
        with pytest.raises(errors.LeaseLost):
            r.done(a)
        await filled(orders, "c")
        r.done(await r.__anext__())
        b = await loop_once(orders, r)
        for method in (r.retry(b, 0), r.dead(b, "why")):
            with pytest.raises(errors.LeaseLost):
                await method
    assert await sql(orders, OPEN) == [(3,)]


async def loop_once(client: Any, r: Any) -> Any:
    """Return an event whose lease another receiver has taken over."""
    await filled(client, "d")
    event = await r.__anext__()
    ((token,),) = await sql(client, TOKEN)
    await sql(client, END.format(token))
    assert await received(client) == [("d", 2)]
    return event


async def test_the_lease_of_an_event_is_extended(orders: Any) -> None:
    await filled(orders, "a")
    async with orders.receiver("orders", "billing") as r:
        event = await r.__anext__()
        await r.extend(event, 3600)
        left = "select run_due > now() + interval '59 min' from pgq.inflight where run_token > 0"
        assert await sql(orders, left) == [(True,)]
        r.done(event)
        with pytest.raises(errors.LeaseLost):
            await r.extend(event, 3600)


async def test_the_lease_of_what_waits_its_turn_is_extended(orders: Any) -> None:
    await filled(orders, *"abc")
    async with orders.receiver("orders", "billing", limit=3, lease=3600) as r:
        r.done(await r.__anext__())
        ((token,),) = await sql(orders, TOKEN)
        await sql(orders, END.format(token))
        slow(r)
        r.done(await r.__anext__())
        assert await received(orders) == []
        await sql(orders, END.format(token))
        assert sorted(await received(orders)) == [("a", 2), ("b", 2), ("c", 2)]
        slow(r)
        with pytest.raises(errors.LeaseLost) as lost:
            await r.__anext__()
        assert len(lost.value.event_ids or []) == 1
        with pytest.raises(errors.LeaseLost):
            await r.__aexit__(None, None, None)


def slow(r: Any) -> None:
    """Let the last event have taken half of the lease."""
    vars(getattr(r, "_receiver", r))["_claimed_at"] -= 1800


async def test_a_loop_waits_beside_the_transaction_of_another_task(
    dsn: str, new_orders: str, client: pgqpy.Client
) -> None:
    async with await pgqpy.connect_async(dsn) as shared:
        async with shared.receiver(new_orders, "another") as r:
            one = client.insert_event(new_orders, "new", "1")
            r.done(await r.__anext__())
            following = asyncio.ensure_future(r.__anext__())
            await asyncio.wait([following], timeout=0.05)
            async with shared.transaction() as transaction:
                transaction.force_rollback = True
                client.insert_event(new_orders, "new", "2")
                client.tick_queue(new_orders)
                await asyncio.wait([following], timeout=0.2)
                assert not following.done()
            event = await asyncio.wait_for(following, 30)
            assert event.id > one
            with pytest.raises(asyncio.CancelledError):
                await cancelled(r)
            r.done(event)
        assert await sql(shared, OPEN) == [(0,)]


async def cancelled(r: Any) -> None:
    """Cancel a loop that waits."""
    waiting = asyncio.ensure_future(r.__anext__())
    await asyncio.wait([waiting], timeout=0.05)
    waiting.cancel()
    await waiting


async def test_a_receiver_does_not_begin_in_a_transaction(orders: Any) -> None:
    async with orders.transaction():
        with pytest.raises(errors.InvalidArgument, match="outside of transactions"):
            await orders.receiver("orders", "billing").__aenter__()
    with pytest.raises(errors.InvalidArgument, match="limit must be"):
        orders.receiver("orders", "billing", limit=0)
