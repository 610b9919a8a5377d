"""Calls of tasks and threads in a transaction that is rolled back before they are sent."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.errors import InFailedSqlTransaction

import pgqpy
from pgqpy import InvalidEvent

if TYPE_CHECKING:
    from collections.abc import Callable

TASKS = 20
BAD = float("nan")  # refused before anything is sent


def payloads() -> list[Any]:
    """Return what the tasks insert: one payload is refused, and gather() raises at once."""
    return [BAD if number == 3 else str(number) for number in range(TASKS)]


async def insert_all(client: pgqpy.AsyncClient) -> None:
    await asyncio.gather(*(client.insert_event("orders", "e", each) for each in payloads()))


async def wait_for_tasks() -> None:
    """Wait until the tasks that gather() left have ended."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    if left:
        await asyncio.wait(left, timeout=20)


@pytest.mark.parametrize("opens", ["client", "connection", "ridden"])
async def test_tasks_of_a_transaction_that_is_rolled_back_insert_nothing(
    dsn: str, new_orders: str, inserted: Callable[[], list[Any]], opens: str
) -> None:
    """Their calls wait for each other, and gather() does not wait for them."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        client = await pgqpy.connect_async(dsn) if opens == "client" else None
        async with client or pgqpy.AsyncClient(connection) as used:
            transaction = connection.transaction if opens == "connection" else used.transaction
            with pytest.raises(InvalidEvent):
                async with transaction():
                    await insert_all(used)
            await wait_for_tasks()
            await used.insert_event(new_orders, "later", None)
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


async def test_messages_are_not_done_after_their_transaction_was_rolled_back(
    dsn: str, queue: pgqpy.Client
) -> None:
    """Their effects in this database are undone: all of them are to come again."""
    async with await pgqpy.connect_async(dsn) as client:
        await client.receive("orders", "letters", wait=0)
        queue.insert_events("orders", [("e", str(number)) for number in range(10)])
        queue.tick_queue("orders")
        messages = await client.receive("orders", "letters", wait=0)
        assert len(messages) == 10

        async def handle(message: Any) -> None:
            await client.connection.execute("select 1")  # the effect
            if message is messages[3]:
                raise ZeroDivisionError
            await message.done()

        with pytest.raises(ZeroDivisionError):
            async with client.transaction():
                await asyncio.gather(*map(handle, messages))
        await wait_for_tasks()
        for message in messages:
            await message.done()  # raises EventNotFound if it was done before


def test_threads_of_a_transaction_that_is_rolled_back_insert_nothing(
    dsn: str, new_orders: str, inserted: Callable[[], list[Any]]
) -> None:
    """asyncio.to_thread copies the context so."""
    failed = threading.Event()
    with pgqpy.connect(dsn) as client, ThreadPoolExecutor(TASKS) as pool:

        def insert(number: int) -> None:
            assert failed.wait(20)
            client.insert_event(new_orders, "e", str(number))

        with suppress(ZeroDivisionError), client.transaction():
            futures = [pool.submit(copy_context().run, insert, number) for number in range(TASKS)]
            raise ZeroDivisionError
        failed.set()
        wait(futures)
        assert {type(each.exception()) for each in futures} == {InFailedSqlTransaction}
        client.insert_event(new_orders, "later", None)
    assert [event[0] for event in inserted()] == ["later"]


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
