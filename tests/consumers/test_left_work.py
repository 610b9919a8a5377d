"""Tasks and threads that outlive the call of the transactional handler that started them."""

from __future__ import annotations

import asyncio
import threading

import psycopg
import pytest

from pgqpy.errors import PgqError
from tests.consumers.harness import NOTE
from tests.support.waiting import eventually

PARTS = pytest.mark.parametrize("part_size", [None, 2])


class Left:
    """What handlers leave: statements that are sent when a later call says `go`."""

    def __init__(self):
        self.go, self.begun = threading.Event(), threading.Semaphore(0)
        self.ended = threading.Semaphore(0)
        self.errors = []
        self.count = 0
        self.tasks = set()

    def start(self, connection, *, in_block):
        """Leave one to a task if there is an event loop, else to a thread."""
        self.count += 1
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            work = self.in_block if in_block else self.send
            threading.Thread(target=work, args=(connection,), daemon=True).start()
        else:
            work = self.in_block_async if in_block else self.send_async
            self.tasks.add(loop.create_task(work(connection)))

    def send(self, connection):
        self.begun.release()
        self.go.wait(20)
        try:
            connection.execute(NOTE, ["left"])
        except (psycopg.Error, PgqError) as error:
            self.errors.append(type(error))
        self.ended.release()

    async def send_async(self, connection):
        self.begun.release()
        await asyncio.to_thread(self.go.wait, 20)
        try:
            await connection.execute(NOTE, ["left"])
        except (psycopg.Error, PgqError) as error:
            self.errors.append(type(error))
        self.ended.release()

    def in_block(self, connection):
        try:
            with connection.transaction():
                self.send(connection)
        except (psycopg.Error, PgqError) as error:
            self.errors.append(type(error))

    async def in_block_async(self, connection):
        try:
            async with connection.transaction():
                await self.send_async(connection)
        except (psycopg.Error, PgqError) as error:
            self.errors.append(type(error))

    def wait_until_begun(self):
        """Wait until one that was left has begun."""
        assert self.begun.acquire(timeout=20)

    def let_go(self):
        """Let all of them send, and wait for their ends."""
        self.go.set()
        for _ in range(self.count):
            assert self.ended.acquire(timeout=20)
        self.count = 0
        self.go.clear()


@pytest.fixture
def left():
    left = Left()
    yield left
    left.go.set()  # for what the last call left


def steps(left, event, connection, in_block):
    """Yield what waits, and a statement; leave work at `bad` and `left`; fail at `bad`."""
    if event.data != "bad":
        yield left.let_go
    if event.data in ("bad", "left"):
        left.start(connection, in_block=in_block)
        yield left.wait_until_begun
    yield NOTE, [event.data]
    if event.data == "bad":
        raise ValueError("the other half of the work failed")


@pytest.fixture
def start(make, left):
    """Run a consumer that does these steps at each event."""

    def starter(*, in_block=False, by_batch=False, **settings):
        def work(self, event, connection):
            for step in steps(left, event, connection, in_block):
                step() if callable(step) else connection.execute(*step)

        async def work_async(self, event, connection):
            for step in steps(left, event, connection, in_block):
                if callable(step):
                    await asyncio.to_thread(step)
                else:
                    await connection.execute(*step)

        handler = work_async if make.asynchronous else work
        members = {"queue": "orders", "name": "billing", "transactional": True, "work": handler}
        if by_batch:
            members["process_batch"] = BATCH[make.asynchronous]
        else:
            members["process_event"] = handler
        return make.run(type("Leaving", (make.base,), members | settings)(make.dsn))

    return starter


def process_batch(self, batch, connection):
    for event in batch:
        self.work(event, connection)


async def process_batch_async(self, batch, connection):
    async for event in batch:
        await self.work(event, connection)


BATCH = (process_batch, process_batch_async)


@PARTS
def test_work_left_by_an_event_that_failed_is_undone_with_it(
    queue, effects, start, left, part_size
):
    """Else its effect is committed with another event, and again when it is retried (G9)."""
    start(part_size=part_size, retry_base=1000)
    queue.insert("a", "bad", "c")
    queue.wait_until_finished()
    assert effects() == ["a", "c"]
    assert set(left.errors) == {PgqError}
    assert len(queue.retry_delays()) == 1


@PARTS
def test_a_block_left_by_an_event_that_failed_is_blamed_on_that_event(
    queue, effects, start, left, part_size
):
    start(part_size=part_size, in_block=True, retry_base=1000)
    queue.insert("a", "bad", "c")
    queue.wait_until_finished()
    assert effects() == ["a", "c"]
    assert left.errors
    assert len(queue.retry_delays()) == 1


def test_work_that_an_event_left_is_refused_and_told(queue, effects, start, left, log):
    """In the next event's call it would be undone if that one fails."""
    start()
    queue.insert("left", "c")
    queue.wait_until_finished()
    assert effects() == ["left", "c"]
    assert left.errors == [PgqError]
    assert "the connection of a handler call that has ended" in log.text


def test_work_left_by_a_batch_that_failed_is_undone_with_it(queue, effects, start, left):
    start(by_batch=True, retry_base=0.01, retry_max=0.01)
    queue.insert("a", "bad")
    eventually(lambda: left.errors)
    assert set(left.errors) == {PgqError}
    assert effects() == []
