"""get_batch_events: the right events, by the cheapest way, in bounded memory, nothing left open."""

from __future__ import annotations

import gc
from contextlib import nullcontext
from datetime import datetime, timezone
from typing import Any

import psycopg
import pytest
from psycopg.types.numeric import Int8BinaryLoader

import pgqpy
from pgqpy import Event, InvalidArgument
from tests.client.conftest import next_batch, open_batch
from tests.client.either import sql

OPEN = "select count(*) from pg_cursors where name like 'pgqpy%'"


async def filled(client: Any, count: int) -> Any:
    return await next_batch(client, *[("t", str(i), str(i % 7)) for i in range(count)])


async def data_of(client: Any, batch: Any, **kwargs: Any) -> list[int]:
    return [int(event.data) async for event in client.get_batch_events(batch, **kwargs)]


async def test_every_fetch_size_gives_the_same_events(orders: Any) -> None:
    batch = await filled(orders, 50)
    for size in (1, 49, 50, 51):
        for inside in (False, True):
            async with orders.transaction() if inside else nullcontext():
                assert await data_of(orders, batch, fetch_size=size) == list(range(50))
                assert await data_of(orders, batch.id, fetch_size=size) == list(range(50))
                assert await sql(orders, OPEN) == [(0,)]


async def test_empty_batch_has_no_events(orders: Any) -> None:
    batch = await next_batch(orders)
    assert await data_of(orders, batch) == []
    assert await data_of(orders, batch.id) == []
    async with orders.transaction():
        assert await data_of(orders, batch.id) == []


async def test_ticks_that_promise_too_few_events_cost_a_second_reading_only(orders: Any) -> None:
    batch = await filled(orders, 50)
    liar = batch._replace(event_seq=batch.prev_event_seq + 1)
    assert await data_of(orders, liar, fetch_size=10) == list(range(50))
    boaster = batch._replace(event_seq=batch.prev_event_seq + 10_000)
    assert await data_of(orders, boaster, fetch_size=10) == list(range(50))


async def test_event_has_its_columns_and_types(orders: Any) -> None:
    batch = await filled(orders, 1)
    async for event in orders.get_batch_events(batch):
        assert type(event) is Event
        assert (event.type, event.data, event.extra1, event.extra2) == ("t", "0", "0", None)
        assert event.retry is None
        assert event.time.tzinfo is not None
        assert event.txid > 0


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("fetch_size", [1, 10])
async def test_times_are_in_utc_whatever_the_session_and_the_application_want(
    orders: Any, fetch_size: int, inside: bool
) -> None:
    batch = await filled(orders, 3)
    await sql(orders, "set timezone = 'Asia/Kolkata'")
    orders.connection.adapters.register_loader("timestamptz", Int8BinaryLoader)
    async with orders.transaction() if inside else nullcontext():
        events = orders.get_batch_events(batch, fetch_size=fetch_size)
        times = [event.time async for event in events]
    stored = await sql(orders, "select extract(epoch from ev_time)::float8 from pgq.event_1")
    assert {time.tzinfo for time in times} == {timezone.utc}
    assert [time.timestamp() for time in times] == [epoch for (epoch,) in stored]


async def test_absurd_fetch_size_is_refused_or_taken_as_one(orders: Any) -> None:
    batch = await filled(orders, 3)
    assert await data_of(orders, batch, fetch_size=0) == [0, 1, 2]
    for size in (-1, 2**31):
        with pytest.raises(InvalidArgument) as caught:
            await data_of(orders, batch, fetch_size=size)
        assert caught.value.parameter == "fetch_size"


@pytest.mark.parametrize("inside", [False, True])
async def test_iterator_closed_early_leaves_no_cursor(orders: Any, inside: bool) -> None:
    batch = await filled(orders, 50)
    async with orders.transaction() if inside else nullcontext():
        events = orders.get_batch_events(batch, fetch_size=5)
        assert (await events.__anext__()).data == "0"
        assert await sql(orders, OPEN) == [(1,)]
        await events.aclose()
        assert await sql(orders, OPEN) == [(0,)]


def test_loop_left_early_leaves_no_cursor(queue: pgqpy.Client) -> None:
    batch = open_batch(queue, *[("t", str(i)) for i in range(50)])
    for _ in queue.get_batch_events(batch, fetch_size=5):
        break
    gc.collect()
    assert queue.connection.execute(OPEN).fetchone() == (0,)
    queue.finish_batch(batch)


async def test_async_loop_left_early_leaves_no_cursor(dsn: str) -> None:
    async with await pgqpy.connect_async(dsn) as client:
        await client.create_queue("orders")
        await client.register_consumer("orders", "billing")
        batch = await filled(client, 50)
        async for _ in client.get_batch_events(batch, fetch_size=5):
            break
        await client.finish_batch(batch)
        await client.get_queue_info()  # whatever comes next has it closed
        assert await sql(client, OPEN) == [(0,)]


def test_reader_collected_in_the_middle_of_a_call_does_not_block_it(queue: pgqpy.Client) -> None:
    batch = open_batch(queue, *[("t", str(i)) for i in range(50)])
    events: Any = queue.get_batch_events(batch, fetch_size=5)
    next(events)
    with queue.connection.lock:  # as psycopg holds it while it talks to the server
        events.close()
    assert queue.connection.execute(OPEN).fetchone() == (1,)
    queue.finish_batch(batch)
    assert queue.connection.execute(OPEN).fetchone() == (0,)


async def test_no_transaction_is_open_between_two_fetches(orders: Any) -> None:
    batch = await filled(orders, 50)
    status = psycopg.pq.TransactionStatus.IDLE
    async for _ in orders.get_batch_events(batch, fetch_size=5):
        assert orders.connection.info.transaction_status == status


async def test_batch_may_be_finished_while_its_events_are_still_read(orders: Any) -> None:
    batch = await filled(orders, 50)
    seen = 0
    async for _ in orders.get_batch_events(batch, fetch_size=5):
        seen += 1
        if seen == 1:
            await orders.finish_batch(batch)
    assert seen == 50


async def test_other_calls_may_come_between(orders: Any) -> None:
    batch = await filled(orders, 20)
    async for event in orders.get_batch_events(batch, fetch_size=3):
        async with orders.transaction():
            await orders.event_retry(batch, event, 10)
    assert await orders.batch_retry(batch, 1) == 0


async def test_two_readers_do_not_meet(orders: Any) -> None:
    batch = await filled(orders, 20)
    other = orders.get_batch_events(batch, fetch_size=4)
    async for event in orders.get_batch_events(batch, fetch_size=3):
        assert (await other.__anext__()).id == event.id
    await other.aclose()


async def test_savepoint_that_takes_the_cursor_away_does_not_hurt(orders: Any) -> None:
    batch = await filled(orders, 20)
    async with orders.transaction():
        events: Any = None
        with pytest.raises(psycopg.errors.DivisionByZero):
            async with orders.transaction():
                events = orders.get_batch_events(batch, fetch_size=5)
                await events.__anext__()
                await sql(orders, "select 1 / 0")
        await events.aclose()
        assert await sql(orders, "select 1") == [(1,)]


async def test_cursor_left_in_a_failed_transaction_is_closed_with_the_next(orders: Any) -> None:
    batch = await filled(orders, 20)
    events = orders.get_batch_events(batch, fetch_size=5)
    await events.__anext__()
    with pytest.raises(psycopg.errors.DivisionByZero):
        async with orders.transaction():
            try:
                await sql(orders, "select 1 / 0")
            finally:
                await events.aclose()
    assert await sql(orders, OPEN) == [(1,)]
    assert await data_of(orders, batch.id, fetch_size=5) == list(range(20))
    assert await sql(orders, OPEN) == [(0,)]


async def test_lost_connection_is_psycopgs_error_and_closing_is_quiet(
    orders: Any, connection: psycopg.Connection[Any]
) -> None:
    batch = await filled(orders, 20)
    events = orders.get_batch_events(batch, fetch_size=5)
    await events.__anext__()
    connection.execute(
        "select pg_terminate_backend(%s, 30000)", [orders.connection.info.backend_pid]
    )
    with pytest.raises(psycopg.OperationalError):
        for _ in range(20):
            await events.__anext__()
    await events.aclose()


EARLIEST = datetime.min.replace(tzinfo=timezone.utc)
LATEST = datetime.max.replace(tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("time", "read"),
    [
        ("infinity", LATEST),
        ("294276-01-01", LATEST),
        ("-infinity", EARLIEST),
        ("0044-03-15 BC", EARLIEST),
    ],
)
def test_event_of_a_writers_odd_time_is_read_by_every_way(
    queue: pgqpy.Client, time: str, read: datetime
) -> None:
    connection = queue.connection
    connection.execute("set role pgq_writer")
    connection.execute(
        "insert into pgq.event_1_0 (ev_time, ev_type, ev_data) values (%s, 't', 'odd')", [time]
    )
    connection.execute("reset role")
    batch = open_batch(queue, ("t", "plain"))
    for size in (1, 2, 5):
        odd, plain = queue.get_batch_events(batch, fetch_size=size)
        assert (odd.data, odd.time, plain.data) == ("odd", read, "plain")
        assert plain.time.year == datetime.now(timezone.utc).year
    odd, plain = queue.get_tick_events("orders", batch.prev_tick_id, batch.tick_id)
    assert (odd.time, plain.data) == (read, "plain")


def test_dead_event_with_an_odd_time_is_listed(queue: pgqpy.Client) -> None:
    queue.connection.execute(
        "insert into pgq.event_1_0 (ev_time, ev_type, ev_data) values ('infinity', 't', 'odd')"
    )
    batch = open_batch(queue)
    queue.event_dead(batch, [(event, "no") for event in queue.get_batch_events(batch)])
    (dead,) = queue.get_dead_events("orders", "billing")
    assert (dead.ev_data, dead.ev_time) == ("odd", LATEST)
