"""Consumers beside a program's own work: `with consumer.running()`."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading

import pytest

from pgqpy.consumers import AsyncConsumer
from pgqpy.errors import ConsumerRunning, QueueNotFound
from tests.consumers.harness import CONSUMER, QUEUE, SESSIONS, short_grace
from tests.support.waiting import eventually, eventually_async

SIGNALS = (signal.SIGTERM, signal.SIGHUP)  # asyncio has its own handler of SIGINT


class Letters(AsyncConsumer):
    """Never ends an event."""

    queue, name = QUEUE, CONSUMER

    async def process_event(self, event):
        self.begun.set()
        await asyncio.Event().wait()

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        self.begun = asyncio.Event()


def within(consumer, body, **options):
    """Run a function while the consumer runs beside it."""

    async def main():
        async with consumer.running(**options) as same:
            assert same is consumer
            await asyncio.to_thread(body)

    if asyncio.iscoroutinefunction(consumer.run):
        asyncio.run(main())
        return
    with consumer.running(**options) as same:
        assert same is consumer
        body()


def fail(_event):
    raise ValueError("no address")


@pytest.mark.parametrize("shared", [False, True])
def test_events_are_handled_during_the_block(queue, make, effects, connection, shared):
    seen, settings = [], {"shared": True, "name": "sharing"} if shared else {}
    consumer = make.consumer(lambda event: seen.append(event.data), **settings)

    def body():
        queue.insert("a", "b")
        eventually(lambda: seen == ["a", "b"])

    within(consumer, body)
    eventually(lambda: connection.execute(SESSIONS).fetchall() == [])
    assert consumer.counts().events == 2


async def test_signals_are_left_to_the_program(queue, dsn):
    before = [signal.getsignal(number) for number in SIGNALS]

    def same():
        return [signal.getsignal(number) for number in SIGNALS] == before

    async with Letters(dsn).running():
        assert same()
    for handles, settings in ((False, {"signals": False}), (True, {})):
        consumer = Letters(dsn, **settings)
        task = asyncio.create_task(consumer.run())
        await eventually_async(lambda: consumer.outage() is None)  # noqa: B023  # awaited here
        assert same() is not handles
        consumer.stop()
        await task


def test_what_keeps_it_from_starting_is_raised_before_the_block(queue, make, log):
    with pytest.raises(QueueNotFound):
        within(make.consumer(print, queue="none"), pytest.fail)
    first = make.start(print)
    eventually(lambda: first.consumer.outage() is None)
    with short_grace(), pytest.raises(ConsumerRunning):
        within(make.consumer(print), pytest.fail, wait=False)
    assert not [each for each in log.records if each.levelno >= logging.ERROR]


def test_a_standby_begins_its_block(queue, make):
    first = make.start(print)
    eventually(lambda: first.consumer.outage() is None)
    seen: list[str] = []

    def body():
        first.stop()
        queue.insert("a")
        eventually(lambda: seen == ["a"])

    within(make.consumer(lambda event: seen.append(event.data)), body)


def test_a_second_block_of_one_consumer_leaves_the_first_alone(queue, make_sync):
    seen: list[str] = []
    consumer = make_sync.consumer(lambda event: seen.append(event.data))

    def body():
        with pytest.raises(RuntimeError, match="runs already"):
            within(consumer, pytest.fail)
        queue.insert("a")
        eventually(lambda: seen == ["a"])

    within(consumer, body)


def test_an_error_is_told_at_once_and_raised_at_the_end(queue, make, log):
    told: list[BaseException] = []

    def body():
        queue.insert("a")
        (error,) = eventually(lambda: told)
        assert isinstance(error, ValueError)
        assert "consumer billing of queue orders ended: ValueError: no address" in log.messages

    with pytest.raises(ValueError, match="no address"):
        within(make.consumer(fail, on_error="stop"), body, on_failure=told.append)


def test_an_error_of_the_block_comes_first(queue, make):
    def body():
        raise KeyError("own")

    with pytest.raises(KeyError):
        within(make.consumer(print), body)


def test_leaving_waits_for_the_event_at_hand(queue, make, effects, waiting_handler, gate):
    consumer = make.consumer(waiting_handler[True], transactional=True)

    def body():
        queue.insert("a")
        gate.wait_for_arrival()
        threading.Thread(target=open_when_stopping).start()

    def open_when_stopping():
        eventually(lambda: consumer.stopping)
        gate.open()

    within(consumer, body)
    assert effects() == ["a"]


def test_leaving_a_thread_does_not_wait_longer_than_stop_timeout(
    queue, make_sync, log, gate, connect
):
    other = connect()

    def body():
        queue.insert("a")
        gate.wait_for_arrival()

    within(make_sync.consumer(lambda _event: other.execute(gate.wait_sql), stop_timeout=0.1), body)
    assert log.messages[-1].endswith("its handler goes on after stop_timeout, and is left alone")


async def test_leaving_a_task_does_not_wait_longer_than_stop_timeout(queue, dsn, log):
    async with Letters(dsn, stop_timeout=0.1).running() as consumer:
        queue.insert("a")
        await asyncio.wait_for(consumer.begun.wait(), 30)
    assert "its handler is cancelled after stop_timeout" in log.messages[-1]
    assert queue.open_batch() is not None
