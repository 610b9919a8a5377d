"""Run consumers of both kinds in a thread, and drive the queue they read from."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import threading
import traceback
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import psycopg

from pgqpy import calls, install
from pgqpy.consumers import (
    AsyncConsumer,
    AsyncTransactionalConsumer,
    Consumer,
    TransactionalConsumer,
)
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    import pgqpy

QUEUE = "orders"
CONSUMER = "billing"
NOTE = "insert into effect (data) values (%s)"  # the table of the fixture `effects`
JOIN_TIMEOUT = 30  # seconds
STATEMENTS = [("select 1", None)]  # what a handler of either kind may return

SESSIONS = "select pid from pg_stat_activity where application_name like 'pgqpy consumer%'"
END = (
    "select pg_terminate_backend(pid) from pg_stat_activity"
    " where application_name like 'pgqpy consumer%'"
)


def installed(server: Any) -> str:
    """Install the schema on a server of one's own; return where."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        install.install(connection)
    return str(server.dsn())


@contextmanager
def patched(name: str, value: Any) -> Iterator[None]:
    """Set a constant of a module, such as "lock.STANDBY_AFTER", of both kinds of consumers."""
    places = [f"pgqpy.consumers.{kind}.{name}" for kind in ("_async", "_sync")]
    with patch(places[0], value), patch(places[1], value):
        yield


def short_grace() -> AbstractContextManager[None]:
    """Let a second run be refused at once, where the first one is not about to end."""
    return patched("lock.STANDBY_AFTER", 0.1)


def private(consumer: Any, name: str) -> Any:
    """Return a private attribute of a consumer, by its name without `_pgq_`."""
    return getattr(consumer, f"_pgq_{name}")


def in_transactions(kind: Any, wanted: bool = True) -> Any:
    """Return the transactional class for a class of consumers, if that is `wanted`."""
    same = {Consumer: TransactionalConsumer, AsyncConsumer: AsyncTransactionalConsumer}
    if not wanted:
        return kind
    return same.get(kind) or type(kind.__name__, (kind,), {"is_transactional": True})


class Name(str, Enum):
    """Names of queues, as some applications keep them."""

    ORDERS = QUEUE


class Queue:
    """A queue with one consumer registered, ticked by hand."""

    def __init__(self, client: pgqpy.Client, name: str = QUEUE, *, made: bool = False) -> None:
        """Create the queue and register the consumer, unless that is done."""
        self.client = client
        self.name = name
        if not made:
            client.create_queue(name)
            client.register_consumer(name, CONSUMER)

    def tick(self) -> None:
        """Take a tick now: ours by tick_queue, the extension pgq's by its own rules."""
        if not self.client.runner.is_extension():
            self.client.tick_queue(self.name)
            return
        last = self.client.force_tick(self.name)
        client, name = self.client, self.name
        eventually(lambda: client.ticker(name) or client.force_tick(name) != last)

    def insert(self, *datas: str) -> list[int]:
        """Insert events with these data, take a tick, return their ids."""
        ids = [self.client.insert_event(self.name, "test", data) for data in datas]
        self.tick()
        return ids

    def deliver(self, *datas: str) -> list[int]:
        """Insert events with these data, wait until the consumer has finished them; their ids."""
        ids = self.insert(*datas)
        self.wait_until_finished()
        return ids

    def fill(self, count: int, size: int = 10) -> None:
        """Insert many events of some characters each, as one batch."""
        self.client.insert_events(self.name, (("test", f"{n:0{size}}") for n in range(count)))
        self.tick()

    def retry_now(self) -> int:
        """Put what waits in the retry queue back at once; how many events."""
        self.client.connection.execute("update pgq.retry_queue set ev_retry_after = now()")
        due = calls.maintain.maint_retry_events()
        moved = sum(iter(lambda: self.client.call(due), 0))
        if moved:
            self.tick()
        return moved

    def retry_delays(self) -> list[float]:
        """Return the seconds until each event in the retry queue is delivered again."""
        rows = self.client.connection.execute(
            "select extract(epoch from ev_retry_after - now())::float8 from pgq.retry_queue"
        ).fetchall()
        return [row[0] for row in rows]

    def open_batch(self) -> int | None:
        """Return the batch that the consumer has open."""
        return self.client.get_consumer_info(self.name, CONSUMER)[0].current_batch

    def pending(self) -> int:
        """Return the ticks that the consumer has not finished."""
        info = self.client.get_consumer_info(self.name, CONSUMER)[0]
        return (self.client.get_queue_info(self.name)[0].last_tick_id or 0) - (info.last_tick or 0)

    def wait_until_finished(self) -> None:
        """Wait until the consumer has finished every tick."""
        eventually(lambda: self.pending() == 0 and self.open_batch() is None)


class Running:
    """A consumer that runs in a thread."""

    def __init__(self, consumer: Any, **options: Any) -> None:
        """Start it with these options of `run()`."""
        self.consumer = consumer
        self._options = options
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            outcome = self.consumer.run(**self._options)
            if inspect.iscoroutine(outcome):
                asyncio.run(outcome)
        except BaseException as error:  # noqa: BLE001  # reported by join()
            self.error = error
            traceback.print_exc()  # for a test that waits for something else, in vain

    def join(self) -> None:
        """Wait until run() ends, and raise what it raised."""
        self.thread.join(JOIN_TIMEOUT)
        assert not self.thread.is_alive(), "run() does not end"
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        """Stop it and wait until run() ends."""
        self.consumer.stop()
        self.join()


class Maker:
    """Make consumers of one kind out of plain functions.

    A handler of a transactional consumer is a generator: it yields the statements to execute on
    the connection, and they are awaited where that is needed.
    """

    _numbers = itertools.count(1)

    def __init__(self, dsn: str, *, asynchronous: bool) -> None:
        """Choose the kind."""
        self.dsn = dsn
        self.asynchronous = asynchronous
        self.base: type[Any] = AsyncConsumer if asynchronous else Consumer
        self.started: list[Running] = []

    def consumer(
        self,
        process_event: Callable[..., Any] | None = None,
        *,
        process_batch: Callable[..., Any] | None = None,
        **attributes: Any,
    ) -> Any:
        """Make a consumer with this handler, which is called with what handlers get."""
        transactional = attributes.pop("transactional", False)
        members: dict[str, Any] = {"queue": QUEUE, "name": CONSUMER, **attributes}
        if process_event is not None:
            members["process_event"] = self._handler(process_event, transactional)
        if process_batch is not None:
            members["process_batch"] = process_batch
        base = in_transactions(self.base) if transactional else self.base
        return type(f"Consumer{next(self._numbers)}", (base,), members)(self.dsn)

    def start(self, *args: Any, wait: Any = True, **kwargs: Any) -> Running:
        """Make a consumer and run it in a thread; it is stopped when the test ends."""
        return self.run(self.consumer(*args, **kwargs), wait=wait)

    def run(self, consumer: Any, **options: Any) -> Running:
        """Run a consumer in a thread; it is stopped when the test ends."""
        running = Running(consumer, **options)
        self.started.append(running)
        return running

    def close(self) -> None:
        """Stop what still runs."""
        for running in self.started:
            running.consumer.stop()
        for running in self.started:
            running.thread.join(JOIN_TIMEOUT)

    def _handler(self, function: Callable[..., Any], transactional: bool) -> Callable[..., Any]:
        if self.asynchronous:
            return _async_transactional(function) if transactional else _async_plain(function)
        return _sync_transactional(function) if transactional else _sync_plain(function)


def _sync_plain(function: Callable[..., Any]) -> Callable[..., Any]:
    def process_event(self: Any, event: Any) -> None:
        function(event)

    return process_event


def _async_plain(function: Callable[..., Any]) -> Callable[..., Any]:
    async def process_event(self: Any, event: Any) -> None:
        function(event)

    return process_event


def _sync_transactional(function: Callable[..., Iterator[Any]]) -> Callable[..., Any]:
    def process_event(self: Any, event: Any, connection: Any) -> None:
        for statement in function(event):
            connection.execute(*statement)

    return process_event


def _async_transactional(function: Callable[..., Iterator[Any]]) -> Callable[..., Any]:
    async def process_event(self: Any, event: Any, connection: Any) -> None:
        for statement in function(event):
            await connection.execute(*statement)

    return process_event
