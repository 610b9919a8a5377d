"""Calls of tasks and threads in a transaction that is rolled back before they are sent."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.errors import InFailedSqlTransaction, UniqueViolation

import pgqpy
from pgqpy import InvalidEvent, QueueNotFound
from tests.client.test_transactions import turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

TASKS = 20
BAD = float("nan")  # refused before anything is sent


def payloads() -> list[Any]:
    """Return what the tasks insert: one payload is refused, and gather() raises at once."""
    return [BAD if number == 3 else str(number) for number in range(TASKS)]


async def insert_all(client: pgqpy.AsyncClient) -> None:
    await asyncio.gather(*(client.insert_event("orders", "e", each) for each in payloads()))


@asynccontextmanager
async def connected(dsn: str, by: str) -> AsyncIterator[pgqpy.AsyncClient]:
    """Connect a client, or an application that makes a client of its connection."""
    if by == "client":
        async with await pgqpy.connect_async(dsn) as client:
            yield client
    else:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            yield pgqpy.AsyncClient(connection)


def block_of(client: pgqpy.AsyncClient, kind: str) -> AbstractAsyncContextManager[Any]:
    """Return a block of client.transaction(), or psycopg's own."""
    return client.transaction() if kind == "client" else client.connection.transaction()


async def wait_for_tasks() -> None:
    """Wait until the tasks have ended that gather() left, or that close a generator."""
    await turn()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    if left:
        await asyncio.wait(left, timeout=20)


@pytest.mark.parametrize("block", ["client", "psycopg"])
@pytest.mark.parametrize("connects", ["client", "application"])
async def test_tasks_of_a_transaction_that_is_rolled_back_insert_nothing(
    dsn: str, new_orders: str, inserted: Callable[[], list[Any]], connects: str, block: str
) -> None:
    """Their calls wait for each other, and gather() does not wait for them."""
    async with connected(dsn, connects) as client:
        with pytest.raises(InvalidEvent):
            async with block_of(client, block):
                await insert_all(client)
        await wait_for_tasks()
        await client.insert_event(new_orders, "later", None)
    assert [event[0] for event in inserted()] == ["later"]


async def test_tasks_of_a_savepoint_that_is_rolled_back_insert_nothing(
    dsn: str, new_orders: str, inserted: Callable[[], list[Any]]
) -> None:
    async with await pgqpy.connect_async(dsn) as client, client.transaction():
        with suppress(InvalidEvent):
            async with client.transaction():
                await insert_all(client)
        await wait_for_tasks()
        await client.insert_event(new_orders, "later", None)
    assert [event[0] for event in inserted()] == ["later"]


@pytest.mark.parametrize("block", ["client", "psycopg"])
@pytest.mark.parametrize("connects", ["client", "application"])
async def test_messages_are_not_done_after_their_transaction_was_rolled_back(
    dsn: str, queue: pgqpy.Client, connects: str, block: str
) -> None:
    """Their effects in this database are undone: all of them are to come again."""
    async with connected(dsn, connects) as client:
        await client.receive("orders", "letters", wait=0)
        queue.insert_events("orders", [("e", str(number)) for number in range(10)])
        queue.tick_queue("orders")
        messages = await client.receive("orders", "letters", wait=0)
        assert len(messages) == 10

        async def handle(message: Any) -> None:
            if block == "client":  # it knows the tasks that it leaves, psycopg's own does not
                await client.connection.execute("select 1")  # the effect
            if message is messages[3]:
                raise ZeroDivisionError
            await message.done()

        with pytest.raises(ZeroDivisionError):
            async with block_of(client, block):
                await asyncio.gather(*map(handle, messages))
        await wait_for_tasks()
        for message in messages:
            await message.done()  # raises NotFound if it was done before


WAYS = {
    "itself": lambda insert: insert,
    "in a task of its own": asyncio.create_task,  # as wait_for() does before Python 3.12
    "gather": asyncio.gather,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("rolls_back", [False, True])
async def test_only_tasks_left_of_a_rollback_are_refused_later(
    dsn: str, new_orders: str, inserted: Callable[[], list[Any]], rolls_back: bool, way: Any
) -> None:
    """Such as background tasks of a request, whose block was committed."""
    async with await pgqpy.connect_async(dsn) as client:
        ended = asyncio.Event()

        async def insert(kind: str) -> None:
            await ended.wait()
            await way(client.insert_event(new_orders, kind, None))

        async with client.transaction() as transaction:
            transaction.force_rollback = rolls_back
            task = asyncio.create_task(insert("left"))
            await turn()
        ended.set()
        await asyncio.wait([task])
        await asyncio.create_task(insert("later"))
    assert isinstance(task.exception(), InFailedSqlTransaction) == rolls_back
    assert [event[0] for event in inserted()] == ["left", "later"][rolls_back:]


async def test_a_block_that_a_generator_is_closed_in_refuses_no_later_task(
    dsn: str, new_orders: str, inserted: Callable[[], list[Any]]
) -> None:
    """The event loop closes it in a task of its own."""
    async with await pgqpy.connect_async(dsn) as client:

        async def numbers() -> AsyncIterator[int]:
            async with client.transaction():
                for number in range(3):
                    yield number

        async for _ in numbers():
            break
        await wait_for_tasks()
        await asyncio.gather(*(client.insert_event(new_orders, "later", None) for _ in "ab"))
    assert [event[0] for event in inserted()] == ["later", "later"]


async def test_a_block_that_ends_in_another_task_leaves_its_opener_free(
    dsn: str, new_orders: str, inserted: Callable[[], list[Any]]
) -> None:
    """As frameworks do with dependencies."""
    async with await pgqpy.connect_async(dsn) as client:
        block = client.transaction()
        await block.__aenter__()
        await client.insert_event(new_orders, "inside", None)
        await asyncio.create_task(block.__aexit__(None, None, None))
        await client.insert_event(new_orders, "later", None)
    assert [event[0] for event in inserted()] == ["inside", "later"]


async def catch_an_error(client: pgqpy.AsyncClient) -> None:
    with suppress(QueueNotFound):
        await client.insert_event("nowhere", "lost", None)


async def let_commit_fail(client: pgqpy.AsyncClient) -> None:
    await client.connection.execute("create table u (n int unique deferrable initially deferred)")
    await client.connection.execute("insert into u values (1), (1)")


@pytest.mark.parametrize("spoil", [catch_an_error, let_commit_fail])
async def test_tasks_left_of_a_block_that_is_rolled_back_at_its_end_insert_nothing(
    dsn: str, new_orders: str, inserted: Callable[[], list[Any]], spoil: Any
) -> None:
    async with await pgqpy.connect_async(dsn) as client:
        ended = asyncio.Event()

        async def insert() -> None:
            await ended.wait()
            await asyncio.gather(client.insert_event(new_orders, "left", None))

        with pytest.raises((InFailedSqlTransaction, UniqueViolation), match=r"was caught|u_n_key"):
            async with client.transaction():
                task = asyncio.create_task(insert())
                await spoil(client)
        ended.set()
        await asyncio.wait([task])
    assert isinstance(task.exception(), InFailedSqlTransaction)
    assert inserted() == []


async def test_a_consumer_is_registered_beside_the_transaction_of_another_task(
    dsn: str, new_orders: str
) -> None:
    """The client remembers it: after a rollback each receive() would fail."""
    async with await pgqpy.connect_async(dsn) as client:

        async def roll_back() -> None:
            async with client.transaction() as transaction:
                transaction.force_rollback = True
                await asyncio.wait([first])

        first = asyncio.create_task(client.receive(new_orders, "letters", wait=0))
        await turn()
        await roll_back()
        assert await client.receive(new_orders, "letters", wait=0) == []
