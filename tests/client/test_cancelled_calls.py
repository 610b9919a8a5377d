"""Calls that are cancelled while they wait for a statement of another task."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import pgqpy
from pgqpy.calls import Call
from tests.client.conftest import open_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

BATCH = [("one", str(number)) for number in range(5)]


class BusyLock(asyncio.Lock):
    """The lock of a connection. It is never free for one of those that ask, counted from 0."""

    def __init__(self, busy_for: int) -> None:
        super().__init__()
        self.asked = count()
        self.busy_for = busy_for
        self.waits = asyncio.Event()

    async def acquire(self) -> Any:
        """Let this one wait until it is cancelled, or take the lock."""
        if next(self.asked) == self.busy_for:
            self.waits.set()
            await asyncio.Event().wait()
        return await super().acquire()


async def transaction(client: pgqpy.AsyncClient, _batch: pgqpy.Batch) -> None:
    async with client.transaction():
        await client.insert_events("orders", BATCH)
        async with client.transaction():
            await client.insert_event("orders", "inner", "1")


async def pipeline(client: pgqpy.AsyncClient, _batch: pgqpy.Batch) -> None:
    """Two calls in one round trip, as consumers send them."""
    one: Call[Any] = Call("now", "select now()", (), lambda rows: rows)
    await client.runner.run_all(one, one)


async def read(client: pgqpy.AsyncClient, batch: pgqpy.Batch) -> None:
    async for _ in client.get_batch_events(batch, fetch_size=2):
        pass


async def load(client: pgqpy.AsyncClient, _batch: pgqpy.Batch, **options: Any) -> None:
    await client.insert_events("orders", BATCH, **options)


LOADS = [load, partial(load, returning_ids=True), partial(load, delay=60)]


@pytest.mark.parametrize("call", [transaction, pipeline, read, *LOADS])
async def test_a_cancelled_call_takes_no_later_one_with_it(
    dsn: str,
    queue: pgqpy.Client,
    inserted: Callable[[], list[Any]],
    call: Callable[[pgqpy.AsyncClient, pgqpy.Batch], Coroutine[Any, Any, None]],
) -> None:
    """A transaction or pipeline that stays open would: later calls return, and commit nothing."""
    batch = open_batch(queue, *BATCH)
    returned = 0
    for busy_for in count():
        async with await pgqpy.connect_async(dsn) as client:
            lock = client.connection.lock = BusyLock(busy_for)
            task = asyncio.create_task(call(client, batch))
            waits = asyncio.create_task(lock.waits.wait())
            await asyncio.wait([task, waits], return_when=asyncio.FIRST_COMPLETED)
            waits.cancel()
            if not lock.waits.is_set():
                await task  # it asked less often
                break
            task.cancel()
            with suppress(asyncio.CancelledError, psycopg.OperationalError):
                await task
            with suppress(psycopg.OperationalError):
                await client.insert_event("orders", "later", str(busy_for))
                returned += 1
    assert busy_for > 1
    assert returned or call is pipeline  # which closes the connection whenever it is cancelled
    assert len([event for event in inserted() if event[0] == "later"]) == returned
