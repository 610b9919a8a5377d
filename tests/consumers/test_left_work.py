"""Tasks and threads that outlive the call of the transactional handler that started them."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager

import psycopg
import pytest

from pgqpy.errors import PgqError
from tests.consumers.harness import NOTE, in_transactions


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

    @contextmanager
    def noting_errors(self):
        try:
            yield
        except (psycopg.Error, PgqError) as error:
            self.errors.append(type(error))

    def send(self, connection):
        self.begun.release()
        self.go.wait(20)
        with self.noting_errors():
            connection.execute(NOTE, ["left"])
        self.ended.release()

    async def send_async(self, connection):
        self.begun.release()
        await asyncio.to_thread(self.go.wait, 20)
        with self.noting_errors():
            await connection.execute(NOTE, ["left"])
        self.ended.release()

    def in_block(self, connection):
        with self.noting_errors(), connection.transaction():
            self.send(connection)

    async def in_block_async(self, connection):
        with self.noting_errors():
            async with connection.transaction():
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

    def starter(how="send", **settings):
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
        members = {"queue": "orders", "name": "billing", "process_event": handler, **settings}
        return make.run(type("Leaving", (in_transactions(make.base),), members)(make.dsn))

    return starter


@pytest.mark.parametrize("how", ["send", "in_block"])
def test_work_or_a_block_left_by_an_event_that_failed_is_undone_with_it(
    queue, effects, start, left, how
):
    """Else its effect is committed with another event, and again when it is retried (G9)."""
    start(how, backoff=(1000, 1000))
    queue.deliver("a", "bad", "c")
    assert effects() == ["a", "c"]
    assert left.errors
    assert how == "in_block" or set(left.errors) == {PgqError}
    assert len(queue.retry_delays()) == 1


def test_work_that_an_event_left_is_refused_and_told(queue, effects, start, left, log):
    """In the next event's call it would be undone if that one fails."""
    start()
    queue.deliver("left", "c")
    assert effects() == ["left", "c"]
    assert left.errors == [PgqError]
    assert "the connection of a handler call that has ended" in log.text
