"""Finishing messages: calls of threads or tasks share a statement, and none harms others."""

from __future__ import annotations

import asyncio
import itertools
import linecache
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import pytest

import pgqpy
from pgqpy import errors
from tests.support.gates import wait_until_blocked
from tests.support.waiting import eventually, eventually_async

Connect = Callable[[], psycopg.Connection[Any]]
END = "update pgq.position set pos_until = now() - interval '1 hour' where pos_batch = %s"
LOCK = """
    select from pgq.registration
     where sub_id = (select pos_sub from pgq.position where pos_batch = %s limit 1) for update
"""
OPEN = "select coalesce(sum(cardinality(pos_ids)), 0) from pgq.current_position"


@contextmanager
def locked(connection: psycopg.Connection[Any], message: Any) -> Iterator[None]:
    """Hold the lease of a message, so that a call that finishes it has to wait."""
    with connection.transaction():
        connection.execute(LOCK, [message.batch_id])
        yield


def statements(client: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows with each statement that finishes messages: how many."""
    counts: list[int] = []
    run = client.runner.run

    def noted(call: Any) -> Any:
        if call.function == "finish_events":
            ids = call.params[1]
            counts.append(len(ids))
        return run(call)

    monkeypatch.setattr(client.runner, "run", noted)
    return counts


def fill(connection: psycopg.Connection[Any], count: int) -> None:
    connection.execute(
        "select pgq.insert_event('orders', 'new', n::text) from generate_series(1, %s) n", [count]
    )
    connection.execute("select pgq.tick_queue('orders')")


def leases(client: pgqpy.Client) -> tuple[list[pgqpy.Message], list[pgqpy.Message]]:
    """Return two leases: of one message, and of the others."""
    one = client.receive("orders", "billing", limit=1, wait=0)
    return one, client.receive("orders", "billing", limit=100, wait=0)


def test_threads_that_wait_for_a_statement_share_the_next_one(
    queue: pgqpy.Client,
    connect: Connect,
    connection: psycopg.Connection[Any],
    threads: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(connection, 7)
    (first,), others = leases(queue)
    counts = statements(queue, monkeypatch)
    with locked(connect(), first):
        calls = [threads.submit(first.done)]
        wait_until_blocked(connection, queue.connection.info.backend_pid)
        calls += [threads.submit(message.done) for message in others]
        eventually(lambda: len(queue._finisher._waiting) == 6)
    for call in calls:
        call.result(30)
    assert counts == [1, 6]
    assert connection.execute(OPEN).fetchone() == (0,)


async def test_tasks_that_wait_for_a_statement_share_the_next_one(
    new_orders: str,
    dsn: str,
    connect: Connect,
    connection: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with await pgqpy.connect_async(dsn) as client:
        fill(connection, 7)
        messages = await client.receive("orders", "billing", wait=0)
        counts = statements(client, monkeypatch)
        with locked(connect(), messages[0]):
            tasks = [asyncio.create_task(message.done()) for message in messages]
            await eventually_async(lambda: len(client._finisher._waiting) == 6)
        await asyncio.wait_for(asyncio.gather(*tasks), 30)
        assert counts == [1, 6]
        assert connection.execute(OPEN).fetchone() == (0,)


@pytest.mark.parametrize("kind", ["lost", "finished", "twice"])
def test_message_that_cannot_be_finished_does_not_stop_others(
    queue: pgqpy.Client,
    connect: Connect,
    connection: psycopg.Connection[Any],
    threads: ThreadPoolExecutor,
    kind: str,
) -> None:
    fill(connection, 5)
    (bad,) = queue.receive("orders", "billing", limit=1, wait=0)
    (first,), others = leases(queue)
    others.pop()  # so its lease stays open
    expected: type[Exception] = errors.BatchLost
    if kind == "lost":
        connection.execute(END, [bad.batch_id])
        queue.receive("orders", "billing", wait=0)
    elif kind == "finished":
        query = "select pgq.finish_events(%s, array[%s]::bigint[])"
        bad = others.pop()
        connection.execute(query, [bad.batch_id, bad.event.id])
        expected = errors.NotFound
    else:
        bad = others[0]
        expected = errors.NotFound
    with locked(connect(), first):
        calls = [threads.submit(first.done)]
        wait_until_blocked(connection, queue.connection.info.backend_pid)
        calls += [threads.submit(message.done) for message in others]
        eventually(lambda: len(queue._finisher._waiting) == len(others))
        failing = threads.submit(bad.done)
        eventually(lambda: len(queue._finisher._waiting) == len(others) + 1)
    with pytest.raises(expected) as caught:
        failing.result(30)
    assert caught.value.event_id == bad.event.id  # type: ignore[attr-defined]  # PgqError
    for call in calls:
        call.result(30)


async def test_task_that_is_cancelled_breaks_off_no_other(
    new_orders: str, dsn: str, connect: Connect, connection: psycopg.Connection[Any]
) -> None:
    async with await pgqpy.connect_async(dsn) as client:
        fill(connection, 3)
        (first,) = await client.receive("orders", "billing", limit=1, wait=0)
        second, third = await client.receive("orders", "billing", wait=0)
        pid = client.connection.info.backend_pid
        with locked(connect(), second):
            with locked(connect(), first):
                one = asyncio.create_task(first.done())
                await eventually_async(lambda: client._finisher._is_led)
                leader, other = (asyncio.create_task(each.done()) for each in (second, third))
                await eventually_async(lambda: len(client._finisher._waiting) == 2)
            await asyncio.wait_for(one, 30)
            await asyncio.to_thread(wait_until_blocked, connection, pid)
            leader.cancel()
            _, pending = await asyncio.wait([leader], timeout=0.1)
            assert pending
        await asyncio.wait_for(other, 30)
        with pytest.raises(asyncio.CancelledError):
            await leader
        assert connection.execute(OPEN).fetchone() == (0,)


async def test_call_that_is_cancelled_before_its_turn_finishes_nothing(
    new_orders: str, dsn: str, connect: Connect, connection: psycopg.Connection[Any]
) -> None:
    async with await pgqpy.connect_async(dsn) as client:
        fill(connection, 3)
        first, second, third = await client.receive("orders", "billing", wait=0)
        with locked(connect(), first):
            one = asyncio.create_task(first.done())
            await eventually_async(lambda: client._finisher._is_led)
            other = asyncio.create_task(second.done())
            await eventually_async(lambda: len(client._finisher._waiting) == 1)
            other.cancel()
            with pytest.raises(asyncio.CancelledError):
                await other
        await asyncio.wait_for(one, 30)
        await asyncio.wait_for(third.done(), 30)
        assert connection.execute(OPEN).fetchone() == (1,)
        await second.done()


async def done(client: Any, *messages: Any) -> None:
    await client.done(messages)


async def test_several_messages_are_done_in_one_statement(
    orders: Any, connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(connection, 5)
    one = await orders.receive("orders", "billing", limit=2, wait=0)
    other = await orders.receive("orders", "billing", limit=2, wait=0)
    client = getattr(orders, "_client", orders)
    counts = statements(client, monkeypatch)
    await done(orders)
    assert counts == []
    with pytest.raises(RuntimeError, match="undo"):
        async with orders.transaction():
            await done(orders, *one, *other)
            raise RuntimeError("undo")
    await done(orders, *one, *other, *one)
    assert counts == [4, 4]
    with pytest.raises(errors.NotFound, match="was finished before"):
        await done(orders, one[0])
    (last,) = await orders.receive("orders", "billing", wait=0)
    assert last.event.data == "5"


async def test_messages_that_are_lost_are_named_and_the_others_are_done(
    orders: Any, connection: psycopg.Connection[Any]
) -> None:
    fill(connection, 4)
    lost = await orders.receive("orders", "billing", limit=2, wait=0)
    kept = await orders.receive("orders", "billing", limit=2, wait=0)
    connection.execute(END, [lost[0].batch_id])
    taken = await orders.receive("orders", "billing", wait=0)
    with pytest.raises(errors.BatchLost, match="2 of 4 messages were taken over") as caught:
        await done(orders, kept[0], *lost, kept[1])
    assert caught.value.event_ids == [message.event.id for message in lost]
    await done(orders, *taken)
    assert connection.execute(OPEN).fetchone() == (0,)


@contextmanager
def interrupted(moment: int) -> Iterator[list[int]]:
    """Press Ctrl-C at one line, counted in lines of the finisher that run; yield their number.

    Not at a `with`: Python itself sees to it that a signal leaves no lock behind.
    """
    passed = [0]

    def trace(frame: Any, event: str, _argument: Any) -> Any:
        file = frame.f_code.co_filename
        if not file.endswith("_sync/finisher.py"):
            return None
        with_lock = linecache.getline(file, frame.f_lineno).lstrip().startswith("with ")
        if event == "line" and not with_lock:
            passed[0] += 1
            if passed[0] == moment:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield passed
    finally:
        sys.settrace(before)


def test_ctrl_c_at_any_moment_leaves_the_way_to_others_free(queue: pgqpy.Client) -> None:
    fill(queue.connection, 1000)
    queue.tick_queue("orders")
    messages = iter(queue.receive("orders", "billing", limit=1000, wait=0))
    for moment in itertools.count(1):
        message = next(messages)
        with suppress(KeyboardInterrupt), interrupted(moment) as passed:
            message.done()
        assert not queue._finisher._is_led
        assert not queue._finisher._mutex.locked()
        if passed[0] < moment:
            break
    assert moment > 20
    next(messages).done()
