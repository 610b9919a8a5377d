"""insert_events that its iterable or caller breaks off: it ends, and the connection is whole."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import AsyncConnection, Rollback
from psycopg.pq import TransactionStatus

import pgqpy
from pgqpy.consumers._async.handler_connection import AsyncHandlerConnection
from tests.client.conftest import open_batch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

REFUSED = "their iterable calls a client"
CANCELS = 150


@pytest.mark.parametrize("another", [False, True])
def test_reading_over_the_connection_that_sends_is_refused(
    queue: pgqpy.Client, inserted: Any, another: bool
) -> None:
    batch = open_batch(queue, ("read", "1"))
    reader = pgqpy.Client(queue.connection) if another else queue
    events = [(event.type, event.data) for event in reader.get_batch_events(batch)]
    with pytest.raises(RuntimeError, match=REFUSED):
        queue.insert_events("orders", ((e.type, e.data) for e in reader.get_batch_events(batch)))
    assert queue.runner.alone()
    assert queue.insert_events("orders", events) == 1
    again = ((event.type, event.data) for event in reader.get_batch_events(batch))
    assert len(queue.insert_events("orders", again, returning_ids=True)) == 1
    assert len(inserted()) == 3


@pytest.mark.parametrize("another", [False, True])
async def test_reading_over_the_connection_that_sends_is_refused_in_a_task(
    dsn: str, new_orders: str, inserted: Any, another: bool
) -> None:
    async with await pgqpy.connect_async(dsn) as client:
        reader = pgqpy.AsyncClient(client.connection) if another else client

        async def events() -> AsyncIterator[Any]:
            yield "read", str(await reader.get_queue_info(new_orders))

        with pytest.raises(RuntimeError, match=REFUSED):
            await client.insert_events(new_orders, events())
        assert client.runner.alone()
        assert await client.insert_events(new_orders, [("read", "1")]) == 1
        assert len(inserted()) == 1


@pytest.mark.parametrize("returning_ids", [False, True])
def test_rollback_of_an_iterable_is_passed_on(
    queue: pgqpy.Client, inserted: Any, returning_ids: bool
) -> None:
    def events() -> Iterator[Any]:
        yield "never", "1"
        raise Rollback

    with queue.transaction():
        queue.insert_event("orders", "never", "0")
        queue.insert_events("orders", events(), returning_ids=returning_ids)
    assert inserted() == []
    with pytest.raises(Rollback):
        queue.insert_events("orders", events(), returning_ids=returning_ids)
    assert inserted() == []


def cancel_after(task: asyncio.Task[int], turns: int) -> None:
    """Cancel a task after so many turns of the event loop."""
    if turns:
        task.get_loop().call_soon(cancel_after, task, turns - 1)
    else:
        task.cancel()


@pytest.mark.parametrize("kind", [AsyncConnection, AsyncHandlerConnection])
async def test_cancelled_at_any_moment_it_leaves_no_connection_in_copy(
    dsn: str, new_orders: str, kind: type[AsyncConnection[Any]]
) -> None:
    """A connection in COPY runs no statement, and its transaction stays open."""
    client = pgqpy.AsyncClient(await kind.connect(dsn, autocommit=True))
    for turns in range(CANCELS):
        task = asyncio.create_task(client.insert_events(new_orders, [("t", "d")] * 50))
        cancel_after(task, turns)
        with suppress(asyncio.CancelledError):
            await task
        if client.connection.closed:
            client = pgqpy.AsyncClient(await kind.connect(dsn, autocommit=True))
        assert client.runner.status() == TransactionStatus.IDLE
    count = await client.insert_events(new_orders, [("t", "d")])
    await AsyncConnection.close(client.connection)
    assert count == 1
