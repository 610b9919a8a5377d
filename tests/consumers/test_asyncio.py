"""What only asyncio has: a loop to share, and tasks that are cancelled."""

from __future__ import annotations

import asyncio

import pytest

from pgqpy.consumers import AsyncConsumer
from tests.consumers.harness import CONSUMER, QUEUE, private
from tests.support.waiting import eventually


class Gated(AsyncConsumer):
    """Waits in its handler until it may go on."""

    queue, name = QUEUE, CONSUMER

    def __init__(self, dsn, **settings):
        super().__init__(dsn, **settings)
        self.entered = asyncio.Event()
        self.may_go_on = asyncio.Event()

    async def process_event(self, event):
        self.entered.set()
        await self.may_go_on.wait()


class TransactionalGated(Gated):
    """The same in a transaction."""

    transactional = True

    async def process_event(self, event, connection):  # type: ignore[override]  # transactional
        await connection.execute("insert into effect values (%s)", [event.data])
        await super().process_event(event)


@pytest.mark.parametrize("kind", [Gated, TransactionalGated])
async def test_cancelling_run_leaves_the_batch_unfinished(queue, dsn, connection, kind):
    connection.execute("create table effect (data text)")
    consumer = kind(dsn)
    queue.insert("a")
    task = asyncio.create_task(consumer.run())
    await asyncio.wait_for(consumer.entered.wait(), 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert connection.execute("select * from effect").fetchall() == []
    assert queue.pending() > 0


async def test_cancelling_a_wait_ends_run(queue, dsn):
    consumer = Gated(dsn, poll_interval=3600)
    task = asyncio.create_task(consumer.run())
    await asyncio.to_thread(eventually, lambda: private(consumer, "worked"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_two_consumers_share_one_loop(queue, client, dsn):
    first, second = Gated(dsn), Gated(dsn, name="second")
    client.register_consumer(QUEUE, "second")
    first.may_go_on.set()
    second.may_go_on.set()
    tasks = [asyncio.create_task(one.run()) for one in (first, second)]
    queue.insert("a")
    await asyncio.wait_for(asyncio.gather(first.entered.wait(), second.entered.wait()), 30)
    first.stop()
    second.stop()
    await asyncio.gather(*tasks)
    assert [info.pending_events for info in client.get_consumer_info(QUEUE)] == [0, 0]
