"""A call in a pipeline of the application is refused: its result would come later."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pgqpy import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable


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


async def read(client: Any, events: Any) -> list[Any]:
    return [event async for event in events]


async def begin(client: Any) -> None:
    async with client.transaction():
        pass


@pytest.mark.parametrize(
    "call",
    [
        lambda client, _batch: client.insert_event("orders", "t", "d"),
        lambda client, _batch: client.insert_events("orders", [("t", "d")]),
        lambda client, batch: read(client, client.get_batch_events(batch, fetch_size=1)),
        lambda client, batch: read(client, client.get_batch_events(batch, fetch_size=1000)),
        lambda client, _batch: read(client, client.get_tick_events("orders", 1, 2)),
        lambda client, _batch: client.receive("orders", "other"),
        lambda client, _batch: begin(client),
    ],
    ids=["call", "load", "cursor", "select", "ticks", "receive", "transaction"],
)
async def test_a_call_in_a_pipeline_is_refused(
    orders: Any, call: Callable[..., Awaitable[Any]]
) -> None:
    await orders.insert_event("orders", "t", "d")
    await orders.tick_queue("orders")
    batch = await orders.next_batch("orders", "billing")
    async with pipeline(orders):
        with pytest.raises(InvalidArgument, match=r"pipeline is open|transactions and pipelines"):
            await call(orders, batch)
    assert [event.data for event in await read(orders, orders.get_batch_events(batch))] == ["d"]
