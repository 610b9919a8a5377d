"""What only asyncio has: a loop to share, and tasks that are cancelled."""

from __future__ import annotations

import asyncio
import sys

import pytest

from pgqpy.consumers import AsyncConsumer
from pgqpy.records import Event
from tests.consumers.harness import CONSUMER, QUEUE, in_transactions, private
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

    is_transactional = True

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


async def test_cancelling_all_tasks_ends_run_before_a_handler_has_begun(queue, dsn):
    class CancelsAll(AsyncConsumer):
        queue, name = QUEUE, CONSUMER

        async def process_event(self, event):
            for other in asyncio.all_tasks() - {asyncio.current_task(), test}:
                other.cancel()

    test = asyncio.current_task()
    queue.insert("a", "b")
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.create_task(CancelsAll(dsn).run()), 30)
    assert queue.pending() > 0


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Task.cancelling() is new in 3.11")
async def test_a_handler_that_cancels_the_task_of_a_later_handler_is_an_error(queue, dsn):
    """A TaskGroup says nothing of a task that raises CancelledError."""

    class LeavesATimer(AsyncConsumer):
        queue, name = QUEUE, CONSUMER

        async def process_event(self, event):
            task = asyncio.current_task()
            assert task is not None
            asyncio.get_running_loop().call_soon(task.cancel)

    queue.insert("a")
    with pytest.raises(RuntimeError, match="cancel the task that called run"):
        await asyncio.wait_for(LeavesATimer(dsn).run(), 30)


async def test_cancelling_a_wait_ends_run(queue, dsn, polls):
    polls(3600)
    consumer = Gated(dsn)
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


def raise_from_itself():
    error = ValueError()
    raise error from error


def raise_as_a_task_group():
    group = ExceptionGroup  # type: ignore[name-defined]  # noqa: F821  # new in 3.11
    raise group("the clean-up failed", [ValueError()])


SWALLOWS = {
    "returns": lambda: None,
    "raises another error": lambda: 1 / 0,
    "raises an error that is its own cause": raise_from_itself,
    "raises the error of a TaskGroup": raise_as_a_task_group,
}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Task.cancelling() is new in 3.11")
@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("swallow", SWALLOWS.values(), ids=SWALLOWS)
async def test_a_handler_cannot_swallow_the_cancellation_of_run(queue, dsn, swallow, transactional):
    entered, handled = asyncio.Event(), []

    class Swallowing(AsyncConsumer):
        queue, name = QUEUE, CONSUMER

        async def process_event(self, event, connection=None):
            entered.set()
            handled.append(event.data)
            if event.data == "b":
                return
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                swallow()

        def stop(self, place):  # type: ignore[override]  # the application's own
            raise AssertionError(place)

    queue.insert("a", "b")
    task = asyncio.create_task(in_transactions(Swallowing, transactional)(dsn).run())
    await asyncio.wait_for(entered.wait(), 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 30)
    assert (handled, queue.pending()) == (["a"], 1)


async def test_retries_that_tasks_ask_for_while_others_are_written_are_kept(queue, client, dsn):
    class Workers(AsyncConsumer):
        queue, name, part_size = QUEUE, CONSUMER, 10

        async def process_batch(self, batch):
            work: asyncio.Queue[Event] = asyncio.Queue(20)
            tasks = [asyncio.create_task(self.retry_all(batch, work)) for _ in range(8)]
            async for event in batch:
                await work.put(event)
            await work.join()
            for task in tasks:
                task.cancel()

        async def retry_all(self, batch, work):
            while True:
                event = await work.get()
                await asyncio.to_thread(len, event.data)
                batch.retry(event, after=900)
                work.task_done()

    queue.fill(300)
    consumer = Workers(dsn)
    task = asyncio.create_task(consumer.run())
    await asyncio.to_thread(queue.wait_until_finished)
    consumer.stop()
    await task
    assert len(queue.retry_delays()) == 300


@pytest.mark.parametrize("transactional", [False, True])
async def test_a_task_that_still_reads_a_failed_batch_does_not_end_run(queue, dsn, transactional):
    class Beating(AsyncConsumer):
        queue, name, backoff = QUEUE, CONSUMER, (0.01, 1.0)
        passes = 0

        async def process_batch(self, batch, connection=None):
            self.passes += 1
            if self.passes > 1:
                async for _ in batch:
                    pass
                return
            self.reading = asyncio.create_task(self.read(batch))
            await asyncio.to_thread(len, "")
            raise ValueError("the heartbeat failed")

        async def read(self, batch):
            async for event in batch:
                await asyncio.to_thread(len, event.data)

    queue.insert(*"abcdef")
    consumer = in_transactions(Beating, transactional)(dsn)
    task = asyncio.create_task(consumer.run())
    await asyncio.to_thread(queue.wait_until_finished)
    consumer.stop()
    await task
    assert consumer.passes == 2
    await asyncio.gather(consumer.reading, return_exceptions=True)  # it fails, or has read all


@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.TaskGroup is new in 3.11")
@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("does", ["raises", "wraps", "catches"])
async def test_a_failed_task_of_a_task_group_fails_its_event_only(queue, dsn, transactional, does):
    """Before Python 3.13 a TaskGroup leaves the consumer's task cancelled, as nobody asked for."""
    seen = []

    class Grouping(AsyncConsumer):
        queue, name, backoff = QUEUE, CONSUMER, (1000, 1000)

        async def process_event(self, event, *_connection):
            try:
                async with asyncio.TaskGroup() as group:  # type: ignore[attr-defined]  # 3.11
                    group.create_task(self.work(event.data))
            except Exception as error:
                if does == "wraps":
                    raise RuntimeError("the work failed") from error
                if does == "raises":
                    raise
            seen.append(event.data)

        async def work(self, data):
            await asyncio.to_thread(len, "")
            if data == "bad":
                raise ValueError(data)

    consumer = in_transactions(Grouping, transactional)(dsn)
    task = asyncio.create_task(consumer.run())
    await asyncio.to_thread(queue.insert, "a", "bad", "c")
    await asyncio.to_thread(queue.wait_until_finished)
    assert not task.done()
    consumer.stop()
    await task
    assert seen[-1] == "c"
    assert len(queue.retry_delays()) == (does != "catches")
