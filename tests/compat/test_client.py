"""Our client on a database with the extension pgq."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

import pgqpy
from pgqpy import BatchLost, InvalidEvent, PgqError, SchemaMissing, calls
from pgqpy.cli.failures import explain
from tests.client.either import Either, sql

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


@pytest.fixture(params=["sync", "async"])
async def orders(request: pytest.FixtureRequest, extension_dsn: str) -> AsyncIterator[Any]:
    """A client, first sync, then async, on a queue `orders` with the consumer `billing`."""
    if request.param == "async":
        async with await pgqpy.connect_async(extension_dsn) as client:
            await _prepare(client)
            yield client
    else:
        with pgqpy.connect(extension_dsn) as sync_client:
            await _prepare(Either(sync_client))
            yield Either(sync_client)


async def _prepare(client: Any) -> None:
    assert await client.create_queue("orders") == 1
    assert await client.create_queue("orders") == 0
    assert await client.register_consumer("orders", "billing") == 1


async def opened(client: Any) -> tuple[Any, list[Any]]:
    await client.force_tick("orders")
    await client.ticker("orders")
    batch = await client.next_batch("orders", "billing")
    assert batch is not None
    return batch, [event async for event in client.get_batch_events(batch)]


async def test_events_go_in_and_come_out(orders: Any) -> None:
    first = await orders.insert_event("orders", "single", {"a": "é"}, "1", None, b"3", 4)
    many = [("bulk", f"\\ \t {i}") for i in range(3000)]
    assert await orders.insert_events("orders", many) == 3000
    batch, events = await opened(orders)
    assert events[0].id == first
    assert events[0].json() == {"a": "é"}
    assert events[0][6:] == ("1", None, "3", "4")
    assert [event[4:6] for event in events[1:]] == many
    await orders.finish_batch(batch)
    with pytest.raises(BatchLost):
        await orders.finish_batch(batch)


@pytest.mark.parametrize("fetch_size", [7, 100, 5000])
async def test_batches_are_read_by_cursor_too(orders: Any, fetch_size: int) -> None:
    await orders.insert_events("orders", [("t", str(i)) for i in range(200)])
    batch, events = await opened(orders)

    async def data() -> list[int]:
        found = orders.get_batch_events(batch.id, fetch_size=fetch_size)
        return [int(event.data) async for event in found]

    assert await data() == list(range(200)) == [int(event.data) for event in events]
    async with orders.transaction():
        assert await data() == list(range(200))
    cursors = await sql(orders, "select from pg_cursors where name like 'pgqpy%'")
    assert cursors == []


async def test_bad_event_in_a_load_inserts_nothing(orders: Any) -> None:
    with pytest.raises(InvalidEvent) as caught:
        await orders.insert_events("orders", [("t", "d"), ("t", "\0")])
    assert caught.value.index == 1
    assert (await opened(orders))[1] == []


async def test_retries_one_by_one_and_of_the_rest_of_a_batch(orders: Any) -> None:
    await orders.insert_events("orders", [("t", str(i)) for i in range(4)])
    batch, events = await opened(orders)
    assert await orders.event_retry(batch, events[0], 0) == 1
    assert await orders.event_retry(batch, events[0], 0) == 0
    tomorrow = datetime.now(timezone.utc) + timedelta(days=1)
    delays = [0, timedelta(0), 3600, tomorrow]
    pairs = zip(events, delays, strict=True)
    assert [await orders.event_retry(batch, *pair) for pair in pairs] == [0, 1, 1, 1]
    assert await orders.batch_retry(batch, 1) == 0
    await orders.finish_batch(batch)
    assert await orders.call(calls.maintain.maint_retry_events()) == 2
    _, again = await opened(orders)
    assert [(event.data, event.retry) for event in again] == [("0", 1), ("1", 1)]


async def test_many_retries_are_all_or_none(orders: Any) -> None:
    await orders.insert_events("orders", [("t", "d")])
    batch, events = await opened(orders)
    with pytest.raises(PgqError):
        await orders.call(
            calls.consume.event_retry_many(
                batch, [(events[0], 1), (events[0]._replace(id=4711), 1)]
            )
        )
    assert await sql(orders, "select from pgq.retry_queue") == []


LACKS: dict[str, Callable[[Any], Any]] = {
    "event_dead": lambda client: client.event_dead(1, []),
    "get_dead_events": lambda client: client.get_dead_events("orders", "billing"),
    "revive_dead_events": lambda client: client.revive_dead_events("orders", "billing"),
    "delete_dead_events": lambda client: client.delete_dead_events("orders", "billing"),
    "tick_queue": lambda client: client.tick_queue("orders"),
    "repair_queue": lambda client: client.call(calls.admin.repair_queue("orders")),
    "tick_event_sql": lambda client: client.call(calls.ticks.tick_event_sql("orders", 1, 2)),
    "get_tick_events": lambda client: anext(client.get_tick_events("orders", 1, 2)),
}


async def test_what_the_extension_lacks_is_named(orders: Any, subtests: pytest.Subtests) -> None:
    for function, call in LACKS.items():
        with subtests.test(function):
            with pytest.raises(SchemaMissing, match=function) as caught:
                await call(orders)
            assert caught.value.function == function
            assert explain(caught.value) == str(caught.value)
            assert "the extension pgq lacks it" in str(caught.value)


async def test_refusals_keep_pgqs_text_and_the_callers_data(orders: Any) -> None:
    for call in (
        lambda: orders.insert_event("nope", "t", "d"),
        lambda: orders.insert_events("nope", [("t", "d")]),
        lambda: orders.ticker("nope"),
        lambda: orders.register_consumer("nope", "c"),
        lambda: orders.drop_queue("nope"),
        lambda: orders.set_queue_config("nope", "ticker_max_count", 1),
    ):
        with pytest.raises(PgqError) as caught:
            await call()
        assert caught.value.queue == "nope"
        assert str(caught.value)
    with pytest.raises(PgqError, match="batch not found") as caught:
        _ = [event async for event in orders.get_batch_events(4711)]
    assert caught.value.batch_id == 4711


async def test_queues_are_set_and_told_about(orders: Any) -> None:
    assert await orders.set_queue_config("orders", "ticker_max_lag", timedelta(seconds=1.5)) == 1
    assert await orders.set_queue_config("orders", "ticker_max_count", 7) == 1
    (info,) = await orders.get_queue_info("orders")
    assert (info.queue_ticker_max_lag, info.queue_ticker_max_count) == (timedelta(seconds=1.5), 7)
    assert len(await orders.get_queue_info()) == 1
    (consumer,) = await orders.get_consumer_info("orders", "billing")
    assert (consumer.queue_name, consumer.consumer_name) == ("orders", "billing")
    assert len(await orders.get_consumer_info()) == 1


async def test_the_rest_of_the_contract_answers(orders: Any) -> None:
    event_id = await orders.insert_event("orders", "t", "d")
    batch, events = await opened(orders)
    assert [event.id for event in events] == [event_id]
    info = await orders.call(calls.consume.get_batch_info(batch))
    assert (info.tick_id, info.prev_tick_id) == (batch.tick_id, batch.prev_tick_id)
    await orders.finish_batch(batch)
    assert await orders.call(calls.consume.get_batch_info(batch)) is None
    assert await orders.next_batch("orders", "billing", min_count=100, min_lag=1) is None
    assert await orders.register_consumer_at("orders", "late", batch.prev_tick_id) == 1
    assert await orders.unregister_consumer("orders", "late") == 1
    assert await orders.ticker() >= 0
    for operation in await orders.call(calls.maintain.maint_operations()):
        assert operation.func_name
    assert await orders.drop_queue("orders", force=True) == 1


async def test_external_ticks_are_stored(orders: Any) -> None:
    await orders.set_queue_config("orders", "external_ticker", True)
    now = datetime.now(timezone.utc)
    assert await orders.ticker("orders", 1000, now, 1000) == 1000


async def test_transaction_of_the_application_is_kept(orders: Any) -> None:
    async with orders.transaction() as outer:
        await orders.insert_event("orders", "t", "1")
        await orders.insert_events("orders", [("t", "2")])
        await sql(orders, "select 1")
        outer.force_rollback = True
    assert (await opened(orders))[1] == []
