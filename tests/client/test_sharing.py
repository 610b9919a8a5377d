"""A client that tasks or threads share: what a call has returned is committed."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import Rollback

import pgqpy
from pgqpy import InvalidEvent
from pgqpy.client._async import messages
from tests.support.gates import shut_gate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import psycopg

COUNT = "select count(*) from pgq.event_template"
MANY = [("many", str(number)) for number in range(20)]
BROKEN = [*MANY, ("many", "a\0")]


def works(number: int) -> tuple[str, Any, dict[str, bool]]:
    """Return the method of one call, its events, and its options: four kinds take turns."""
    kinds = [
        ("insert_events", MANY, {"returning_ids": True}),
        ("insert_events", MANY, {}),
        ("insert_events", BROKEN, {"returning_ids": True}),
        ("insert_event", ("one", str(number)), {}),
    ]
    return kinds[number % 4]


async def read(client: pgqpy.AsyncClient, call: str, queue: str, batch: pgqpy.Batch) -> int:
    """Return how many events a reader with a cursor has: of a batch, or of its ticks."""
    if call == "read":
        return len([e async for e in client.get_batch_events(batch, fetch_size=3)])
    ticks = (queue, batch.prev_tick_id, batch.tick_id)
    return len([e async for e in client.get_tick_events(*ticks, fetch_size=3)])


@pytest.mark.parametrize("clients", [1, 2])
def test_threads(
    dsn: str, new_orders: str, connection: psycopg.Connection[Any], clients: int
) -> None:
    with pgqpy.connect(dsn) as client:
        made = [client, pgqpy.Client(client.connection)][:clients]

        def call(number: int) -> int:
            method, events, options = works(number)
            arguments = events if method == "insert_event" else (events,)
            with suppress(InvalidEvent):
                getattr(made[number % clients], method)(new_orders, *arguments, **options)
                return 1 if method == "insert_event" else len(MANY)
            return 0

        with ThreadPoolExecutor(4) as pool:
            inserted = sum(pool.map(call, range(80)))
        assert inserted == 20 * (20 + 20 + 1)
        assert connection.execute(COUNT).fetchone() == (inserted,)
        assert client.runner.alone()


@pytest.mark.parametrize("clients", [1, 2])
async def test_tasks(
    dsn: str, new_orders: str, connection: psycopg.Connection[Any], clients: int
) -> None:
    async with await pgqpy.connect_async(dsn) as client:
        made = [client, pgqpy.AsyncClient(client.connection)][:clients]

        async def call(number: int) -> int:
            method, events, options = works(number)
            arguments = events if method == "insert_event" else (events,)
            with suppress(InvalidEvent):
                await getattr(made[number % clients], method)(new_orders, *arguments, **options)
                return 1 if method == "insert_event" else len(MANY)
            return 0

        inserted = sum(await asyncio.gather(*map(call, range(80))))
        assert inserted == 20 * (20 + 20 + 1)
        assert connection.execute(COUNT).fetchone() == (inserted,)
        assert client.runner.alone()


@pytest.mark.parametrize("call", ["read", "read ticks"])
async def test_a_call_beside_a_load_is_in_no_transaction(
    dsn: str, new_orders: str, client: pgqpy.Client, call: str
) -> None:
    """insert_events has one open, which is not the application's."""
    client.insert_events(new_orders, MANY)
    client.tick_queue(new_orders)
    batch = client.next_batch(new_orders, "billing")
    assert batch is not None
    async with await pgqpy.connect_async(dsn) as shared:
        beside: list[asyncio.Task[int]] = []

        async def events() -> AsyncIterator[Any]:
            beside.append(asyncio.create_task(read(shared, call, new_orders, batch)))
            await asyncio.wait(beside, timeout=0.1)
            yield "one", "1"

        assert await shared.insert_events(new_orders, events()) == 1
        assert await beside[0] == len(MANY)
        assert shared.runner.alone()


@pytest.mark.parametrize("call", ["read", "read ticks"])
async def test_a_reader_waits_for_a_statement_of_another_task(
    dsn: str,
    new_orders: str,
    client: pgqpy.Client,
    connection: psycopg.Connection[Any],
    call: str,
) -> None:
    """A reader that is left closes its cursor at any time. The other one is in no transaction."""
    client.insert_events(new_orders, MANY)
    client.tick_queue(new_orders)
    batch = client.next_batch(new_orders, "billing")
    assert batch is not None
    async with await pgqpy.connect_async(dsn) as shared:
        with shut_gate(connection) as gate:
            statement = asyncio.create_task(shared.connection.execute(gate.wait_sql))
            await asyncio.to_thread(gate.wait_for_arrival)
            reader = asyncio.create_task(read(shared, call, new_orders, batch))
            await asyncio.wait([reader], timeout=0.1)
        await statement
        assert await reader == len(MANY)


async def test_a_load_with_ids_may_wait_for_another_task_of_its_client(
    dsn: str, new_orders: str
) -> None:
    async with await pgqpy.connect_async(dsn) as shared:

        async def events() -> AsyncIterator[Any]:
            (info,) = await asyncio.create_task(shared.get_queue_info(new_orders))
            yield "one", info.queue_name

        assert len(await shared.insert_events(new_orders, events(), returning_ids=True)) == 1
        assert len(await shared.insert_events(new_orders, events(), returning_ids=True)) == 1


async def test_receive_takes_no_lease_in_the_transaction_of_another_task(
    dsn: str, new_orders: str, client: pgqpy.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rollback would undo the lease of messages that were returned."""
    monkeypatch.setattr(messages, "POLL_INTERVAL", 0.01)
    async with await pgqpy.connect_async(dsn) as shared:
        assert await shared.receive(new_orders, "another", wait=0) == []
        receiver = asyncio.create_task(shared.receive(new_orders, "another", wait=60))
        await asyncio.wait([receiver], timeout=0.05)
        async with shared.transaction():
            client.insert_event(new_orders, "one", "1")
            client.tick_queue(new_orders)
            await asyncio.wait([receiver], timeout=0.2)
            assert not receiver.done()
            raise Rollback
        (message,) = await receiver
        assert client.receive(new_orders, "another", wait=0) == []
        await message.done()


def test_done_in_the_iterable_of_a_load_is_refused(
    dsn: str, new_orders: str, client: pgqpy.Client
) -> None:
    client.receive(new_orders, "another", wait=0)
    client.insert_events(new_orders, MANY)
    with pgqpy.connect(dsn) as shared:
        (message,) = shared.receive(new_orders, "another", limit=1)

        def events() -> Iterator[Any]:
            message.done()
            yield "never", "1"

        with pytest.raises(RuntimeError, match="their iterable calls a client"):
            shared.insert_events(new_orders, events())
        message.done()
