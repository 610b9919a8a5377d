"""Cancel scopes of anyio, which cancel a task in each turn of the loop until it has left them."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from tests.consumers.test_asyncio import Gated, TransactionalGated

ATTEMPTS = "select pos_attempts from pgq.current_position"


async def test_a_cancel_scope_of_anyio_knows_the_cancellation_of_run_for_its_own():
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        consumer = Gated(f"host=127.0.0.1 port={silent.getsockname()[1]}")
        with anyio.move_on_after(0.2) as scope:
            await consumer.run()
    assert scope.cancelled_caught


@pytest.mark.parametrize("kind", [Gated, TransactionalGated])
async def test_a_run_that_anyio_cancels_again_and_again_ends_in_order(queue, dsn, connection, kind):
    connection.execute("create table effect (data text)")
    consumer = kind(dsn)
    queue.insert("a")
    async with anyio.create_task_group() as group:
        group.start_soon(consumer.run)
        await asyncio.wait_for(consumer.entered.wait(), 30)
        assert connection.execute(ATTEMPTS).fetchone() == (1,)
        group.cancel_scope.cancel()
    assert connection.execute(ATTEMPTS).fetchone() == (0,)
    assert queue.pending() > 0


async def test_anyio_breaks_off_nothing_though_scopes_are_cancelled_one_in_the_other(queue, dsn):
    consumer: Any = Gated(dsn)
    cleaned, inner = [], anyio.CancelScope()

    async def process_event(event):
        try:
            await Gated.process_event(consumer, event)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
                inner.cancel()
                for _ in range(10):
                    await anyio.lowlevel.checkpoint()
                cleaned.append(event.data)

    consumer.process_event = process_event
    queue.insert("a")

    async def run():
        with inner:
            await consumer.run()

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await asyncio.wait_for(consumer.entered.wait(), 30)
        group.cancel_scope.cancel()
    assert cleaned == ["a"]
