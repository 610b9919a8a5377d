"""Receivers that wait: one connection for all of a process hears of ticks."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from enum import Enum
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import pgqpy
from pgqpy import calls
from pgqpy.client import listening
from tests.support.waiting import eventually, eventually_async

if TYPE_CHECKING:
    from collections.abc import Callable


class Name(str, Enum):
    ORDERS = "orders"


pytestmark = pytest.mark.usefixtures("billing_is_shared")


@pytest.fixture(autouse=True)
def woken_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let receivers that wait look only when they are woken."""
    for kind in ("_sync", "_async"):
        monkeypatch.setattr(f"pgqpy.client.{kind}.messages.POLL_INTERVAL", 3600)


def waits() -> int:
    return sum(len(each._waits) for each in list(listening._listeners.values()))


def fill(client: pgqpy.Client, *data: str, queue: str = "orders") -> None:
    for each in data:
        client.insert_event(queue, "new", each)
    client.tick_queue(queue)


def test_waits_of_several_clients_and_queues_share_one_connection(
    queue: pgqpy.Client, dsn: str, threads: ThreadPoolExecutor, sessions: Callable[[], list[int]]
) -> None:
    queue.create_queue('Odd "queue"')
    queue.call(calls.inflight.register_shared_consumer('Odd "queue"', "billing", None))
    with ExitStack() as stack:
        clients = [stack.enter_context(pgqpy.connect(dsn)) for _ in range(2)]
        received = [
            threads.submit(client.receive, name, "billing", limit=1, wait=60)
            for client in clients
            for name in ("orders", Name.ORDERS, 'Odd "queue"')
        ]
        eventually(lambda: waits() == 6)
        (pid,) = eventually(sessions)
        fill(queue, "a", "b", "c", "d")
        fill(queue, "e", "f", queue='Odd "queue"')
        got = [message.event.data for each in received for message in each.result(30)]
        assert sorted(filter(None, got)) == list("abcdef")
        assert sessions() == [pid]


async def test_tasks_and_threads_share_it(
    queue: pgqpy.Client, dsn: str, threads: ThreadPoolExecutor, sessions: Callable[[], list[int]]
) -> None:
    async with await pgqpy.connect_async(dsn) as client:
        tasks = [
            asyncio.create_task(client.receive("orders", "billing", limit=1, wait=60))
            for _ in range(3)
        ]
        with pgqpy.connect(dsn) as other:
            thread = threads.submit(other.receive, "orders", "billing", limit=1, wait=60)
            await eventually_async(lambda: waits() == 4)
            assert len(await eventually_async(sessions)) == 1
            fill(queue, "a", "b", "c", "d")
            received = await asyncio.wait_for(asyncio.gather(*tasks), 30)
            got = [message.event.data for (message,) in received]
            got += [message.event.data for message in thread.result(30)]
    assert sorted(filter(None, got)) == list("abcd")


def test_clients_that_connect_otherwise_have_their_own(
    queue: pgqpy.Client, dsn: str, threads: ThreadPoolExecutor, sessions: Callable[[], list[int]]
) -> None:
    with pgqpy.connect(dsn) as one, pgqpy.connect(dsn, application_name="another") as other:
        received = [
            threads.submit(each.receive, "orders", "billing", limit=1, wait=60)
            for each in (one, other)
        ]
        eventually(lambda: len(sessions()) == 2)
        fill(queue, "a", "b")
        assert all(each.result(30) for each in received)


def test_connection_of_an_application_is_left_as_it_was(
    queue: pgqpy.Client,
    connect: Callable[[], psycopg.Connection[Any]],
    threads: ThreadPoolExecutor,
    sessions: Callable[[], list[int]],
) -> None:
    connection = connect()
    received = threads.submit(pgqpy.Client(connection).receive, "orders", "billing", wait=60)
    assert eventually(sessions) != [connection.info.backend_pid]
    fill(queue, "a")
    assert received.result(30)
    channels = connection.execute("select pg_listening_channels()").fetchall()
    assert channels == []


def test_each_wait_begins_with_a_look_so_that_no_tick_before_it_is_missed(
    queue: pgqpy.Client, sessions: Callable[[], list[int]]
) -> None:
    for _ in ("while it connects", "while it listens"):
        woken = threading.Event()
        with listening.woken_by_ticks(queue.connection, "orders", woken.set):
            assert woken.wait(10)
    assert len(sessions()) == 1


def test_it_goes_soon_after_the_last_wait_and_comes_again(
    queue: pgqpy.Client, sessions: Callable[[], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "LINGER", 0.05)
    for _ in range(2):
        assert queue.receive("orders", "billing", wait=0.2) == []
        eventually(lambda: not sessions() and not listening._listeners)
        names = [thread.name for thread in threading.enumerate()]
        assert "pgqpy-listen" not in names


async def test_wait_that_is_cancelled_leaves_nothing(
    new_orders: str,
    dsn: str,
    sessions: Callable[[], list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listening, "LINGER", 0.05)
    async with await pgqpy.connect_async(dsn) as client:
        task = asyncio.create_task(client.receive("orders", "billing", wait=60))
        await eventually_async(lambda: waits() == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert waits() == 0
        await eventually_async(lambda: not sessions() and not listening._listeners)
        assert await client.receive("orders", "billing", wait=0) == []


def test_lost_connection_is_opened_again_and_misses_nothing(
    queue: pgqpy.Client,
    dsn: str,
    connection: psycopg.Connection[Any],
    threads: ThreadPoolExecutor,
    sessions: Callable[[], list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listening, "FIRST_PAUSE", 0.3)
    with pgqpy.connect(dsn) as client:
        received = threads.submit(client.receive, "orders", "billing", wait=60)
        (pid,) = eventually(sessions)
        connection.execute("select pg_terminate_backend(%s)", [pid])
        eventually(lambda: pid not in sessions())
        fill(queue, "a")  # nobody listens
        assert received.result(30)
        received = threads.submit(client.receive, "orders", "billing", wait=60)
        assert eventually(sessions) != [pid]
        fill(queue, "b")
        assert received.result(30)


def test_receivers_look_by_themselves_while_nothing_listens(
    queue: pgqpy.Client, dsn: str, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = threading.Event()

    def refuse(*_args: Any, **_more: Any) -> None:
        refused.set()
        raise OSError("no room")

    monkeypatch.setattr("pgqpy.client.open_session", refuse)
    monkeypatch.setattr("pgqpy.client._sync.messages.POLL_INTERVAL", 0.05)
    with pgqpy.connect(dsn) as client:
        received = threads.submit(client.receive, "orders", "billing", wait=60)
        assert refused.wait(30)
        fill(queue, "a")
        assert received.result(30)
