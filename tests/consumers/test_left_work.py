"""Tasks and threads that outlive the call of the transactional handler that started them."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import psycopg
import pytest

from pgqpy.consumers._async.handler_connection import AsyncHandlerConnection
from pgqpy.errors import PgqError
from tests.consumers.harness import NOTE, patched
from tests.support.waiting import eventually

PARTS = pytest.mark.parametrize("part_size", [10_000, 2])


class Left:
    """What handlers leave: statements that are sent when a later call says `go`."""

    def __init__(self):
        self.go, self.begun = threading.Event(), threading.Semaphore(0)
        self.ended = threading.Semaphore(0)
        self.errors = []
        self.count = 0
        self.tasks = set()

    def start(self, connection, how):
        """Leave one to a task if there is an event loop, else to a thread."""
        self.count += 1
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            work = getattr(self, how)
            threading.Thread(target=work, args=(connection,), daemon=True).start()
        else:
            work = getattr(self, f"{how}_async")
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

    def stream(self, connection):
        """Read slowly: psycopg's lock is held meanwhile."""
        with suppress(psycopg.Error, PgqError):
            for _ in connection.cursor().stream("select generate_series(1, 9)"):
                self.send(connection)

    async def stream_async(self, connection):
        with suppress(psycopg.Error, PgqError):
            async for _ in connection.cursor().stream("select generate_series(1, 9)"):
                await self.send_async(connection)

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


def steps(left, event, connection, how):
    """Yield what waits, and a statement; leave work at `bad` and `left`; fail at `bad`."""
    if event.data != "bad":
        yield left.let_go
    yield NOTE, [event.data]
    if event.data in ("bad", "left"):
        left.start(connection, how)
        yield left.wait_until_begun
    if event.data == "bad":
        raise ValueError("the other half of the work failed")


@pytest.fixture
def start(make, left):
    """Run a consumer that does these steps at each event."""

    def starter(how="send", *, by_batch=False, **settings):
        def work(self, event, connection):
            for step in steps(left, event, connection, how):
                step() if callable(step) else connection.execute(*step)

        async def work_async(self, event, connection):
            for step in steps(left, event, connection, how):
                if callable(step):
                    await asyncio.to_thread(step)
                else:
                    await connection.execute(*step)

        handler = work_async if make.asynchronous else work
        members = {"queue": "orders", "name": "billing", "is_transactional": True, "work": handler}
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
    start(part_size=part_size, backoff=(1000, 1000))
    queue.insert("a", "bad", "c")
    queue.wait_until_finished()
    assert effects() == ["a", "c"]
    assert set(left.errors) == {PgqError}
    assert len(queue.retry_delays()) == 1


@PARTS
def test_a_block_left_by_an_event_that_failed_is_blamed_on_that_event(
    queue, effects, start, left, part_size
):
    start("in_block", part_size=part_size, backoff=(1000, 1000))
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
    start(by_batch=True, backoff=(0.01, 3600.0))
    queue.insert("a", "bad")
    eventually(lambda: left.errors)
    assert set(left.errors) == {PgqError}
    assert effects() == []


def test_a_reader_that_a_failed_event_left_holds_nobody_up(queue, effects, start, left):
    """It holds the connection for as long as it likes."""
    with patched("handler_connection.STATEMENT_TIMEOUT", 0.05):
        start("stream", backoff=(1000, 1000))
        queue.insert("bad")
        eventually(lambda: len(queue.retry_delays()) == 1)
        left.count = 0  # they are let go at the end
        queue.insert("c")
        queue.wait_until_finished()
    assert effects() == ["c"]


async def test_a_block_whose_end_is_refused_ends_the_connection(dsn):
    """It would stay open below the blocks that follow, which would commit nothing."""
    connection = await AsyncHandlerConnection.connect(dsn, autocommit=True)
    with pytest.raises(psycopg.OperationalError, match="the handler left a statement"):
        async with connection.transaction():
            block = connection.transaction()
            await block.__aenter__()
    assert connection.closed
    connection = await AsyncHandlerConnection.connect(dsn, autocommit=True)
    async with connection.transaction():
        with pytest.raises(ZeroDivisionError):
            async with connection.lent() as lent:
                block = lent.transaction()
                await block.__aenter__()
                lent.call_ended = True
                with pytest.raises(PgqError):
                    await block.__aexit__(None, None, None)
                raise ZeroDivisionError
        assert connection.closed
