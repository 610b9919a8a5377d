"""Messages in a pipeline of the application: what has returned is committed."""

from __future__ import annotations

import inspect
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.errors import DivisionByZero, InFailedSqlTransaction, UndefinedTable

from pgqpy import errors
from tests.client.either import sql
from tests.client.test_receive import filled, finish, receive
from tests.support.sqlstates import refused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

OPEN = "select coalesce(sum(cardinality(pos_ids)), 0) from pgq.current_position"
LEFT = "select max(pos_until) > now() + interval '10 minutes' from pgq.position"


@asynccontextmanager
async def pipeline(client: Any) -> AsyncIterator[None]:
    """Open a pipeline of the application on the client's connection."""
    async with AsyncExitStack() as stack:
        block = client.connection.pipeline()
        if hasattr(block, "__aenter__"):
            await stack.enter_async_context(block)
        else:
            stack.enter_context(block)
        yield


@pytest.mark.parametrize(
    ("method", "arguments"), [("done", ()), ("retry", (0,)), ("dead", ("broken",))]
)
async def test_message_finished_in_a_pipeline_stays_finished(
    orders: Any, connection: psycopg.Connection[Any], method: str, arguments: tuple[Any, ...]
) -> None:
    await filled(orders, "a")
    (message,) = await receive(orders)
    with pytest.raises(DivisionByZero):
        async with pipeline(orders):
            await finish(message, method, *arguments)
            assert connection.execute(OPEN).fetchone() == (0,)
            await sql(orders, "select 1 / 0")
    assert connection.execute(OPEN).fetchone() == (0,)
    with refused("PQ004"):
        await finish(message)


async def test_messages_finished_in_a_pipeline_stay_finished(
    orders: Any, connection: psycopg.Connection[Any]
) -> None:
    await filled(orders, "a", "b")
    messages = await receive(orders)
    messages += await receive(orders)
    async with pipeline(orders):
        await orders.done(messages)
        assert connection.execute(OPEN).fetchone() == (0,)


async def test_lease_extended_in_a_pipeline_stays_extended(
    orders: Any, connection: psycopg.Connection[Any]
) -> None:
    await filled(orders, "a")
    (message,) = await receive(orders)
    async with pipeline(orders):
        await finish(message, "extend", 3600)
        assert connection.execute(LEFT).fetchone() == (True,)


async def test_done_in_a_pipeline_inside_a_transaction_commits_with_it(
    orders: Any, connection: psycopg.Connection[Any]
) -> None:
    await filled(orders, "a")
    (message,) = await receive(orders)
    with pytest.raises(RuntimeError, match="undo"):
        async with orders.transaction(), pipeline(orders):
            await finish(message)
            assert connection.execute(OPEN).fetchone() == (1,)
            raise RuntimeError("undo")
    await finish(message)
    assert connection.execute(OPEN).fetchone() == (0,)


async def test_receive_in_a_pipeline_is_refused(orders: Any) -> None:
    await filled(orders, "a")
    async with pipeline(orders):
        with pytest.raises(errors.InvalidArgument, match="outside of transactions and pipelines"):
            await receive(orders)
    (message,) = await receive(orders)
    await finish(message)


@pytest.mark.parametrize("fetch_size", [2, 1000])
async def test_events_read_in_a_pipeline_are_all_there(orders: Any, fetch_size: int) -> None:
    await filled(orders, "a", "b", "c")
    batch = await orders.next_batch("orders", "billing")
    async with orders.transaction(), pipeline(orders):
        events = orders.get_batch_events(batch, fetch_size=fetch_size)
        assert [event.data async for event in events] == ["a", "b", "c"]
    async with pipeline(orders):
        events = orders.get_batch_events(batch, fetch_size=fetch_size)
        assert [event.data async for event in events] == ["a", "b", "c"]


async def test_events_are_read_behind_a_statement_of_the_pipeline(orders: Any) -> None:
    await filled(orders, "a", "b", "c")
    batch = await orders.next_batch("orders", "billing")
    async with pipeline(orders):
        await send(orders, "create table seen (data text)")
        events = orders.get_batch_events(batch, fetch_size=1)
        assert [event.data async for event in events] == ["a", "b", "c"]


async def test_an_event_whose_id_was_returned_in_a_pipeline_stays(
    orders: Any, inserted: Callable[[], list[Any]]
) -> None:
    async with pipeline(orders):
        await orders.insert_event("orders", "kept", "1")
        with suppress(errors.QueueNotFound):
            await orders.insert_event("nowhere", "lost", "2")
    assert [event[:2] for event in inserted()] == [("kept", "1")]


async def test_an_error_that_is_caught_in_a_transaction_in_a_pipeline_is_raised_at_its_end(
    orders: Any, inserted: Callable[[], list[Any]]
) -> None:
    async with pipeline(orders):
        with pytest.raises(InFailedSqlTransaction, match="of its own"):
            async with orders.transaction():
                await orders.insert_event("orders", "lost", "1")
                with suppress(errors.QueueNotFound):
                    await orders.insert_event("nowhere", "lost", "2")
    assert inserted() == []


@pytest.mark.parametrize("call", ["insert_event", "get_batch_events", "get_tick_events"])
async def test_the_error_of_another_statement_of_the_pipeline_is_its_own(
    orders: Any, call: str
) -> None:
    """UndefinedTable of ours would be a queue that was dropped meanwhile."""
    await filled(orders, "a")
    batch = await orders.next_batch("orders", "billing")
    with pytest.raises(UndefinedTable, match="nowhere"):
        async with pipeline(orders):
            await send(orders, "select from nowhere")
            if call == "insert_event":
                await orders.insert_event("orders", "lost", "1")
            elif call == "get_batch_events":
                assert not [event async for event in orders.get_batch_events(batch)]
            else:
                ticks = batch.prev_tick_id, batch.tick_id
                assert not [event async for event in orders.get_tick_events("orders", *ticks)]


async def test_a_reader_that_is_left_hides_no_error_of_the_pipeline(orders: Any) -> None:
    await filled(orders, "a", "b", "c")
    batch = await orders.next_batch("orders", "billing")
    with pytest.raises(UndefinedTable, match="nowhere"):
        async with pipeline(orders):
            events = orders.get_batch_events(batch, fetch_size=1)
            assert (await events.__anext__()).data == "a"
            await send(orders, "select from nowhere")
            await events.aclose()
    await orders.insert_event("orders", "test", "closes it")
    assert await sql(orders, "select count(*) from pg_cursors where is_holdable") == [(0,)]


async def send(client: Any, query: str) -> None:
    """Send a statement of the application without waiting for its result."""
    sent = client.connection.execute(query)
    if inspect.isawaitable(sent):
        await sent
