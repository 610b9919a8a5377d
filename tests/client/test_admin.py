"""Queues made, set, told about and dropped, on both clients."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pgqpy import InvalidArgument, QueueInUse, QueueNotFound, calls
from pgqpy.records import ConsumerInfo, QueueInfo
from tests.client.either import sql
from tests.support.sqlstates import refused


async def test_create_says_whether_it_was_new(either: Any) -> None:
    assert await either.create_queue("orders") == 1
    assert await either.create_queue("orders") == 0


async def test_name_that_cannot_be_used_is_refused(either: Any, subtests: pytest.Subtests) -> None:
    for name in ("", "x" * 60, "é" * 30, "or\nders", "\x7f", "or\0ders", "\udc80"):
        with subtests.test(name=ascii(name)), pytest.raises(InvalidArgument):
            await either.create_queue(name)
    assert await either.get_queue_info() == []


async def test_odd_names_work_all_the_way(either: Any, subtests: pytest.Subtests) -> None:
    for name in ("x" * 59, "Or Ders", 'a"b', "a.b", "%s", "'; drop", "é" * 29):
        with subtests.test(name=name):
            await _expect_delivery(either, name)


async def _expect_delivery(either: Any, name: str) -> None:
    assert await either.create_queue(name) == 1
    assert await either.register_consumer(name, name) == 1
    await either.insert_event(name, "t", "single")
    await either.insert_events(name, [("t", "bulk")])
    await either.tick_queue(name)
    batch = await either.next_batch(name, name)
    assert [event.data async for event in either.get_batch_events(batch)] == ["single", "bulk"]
    await either.finish_batch(batch)
    assert await either.drop_queue(name, force=True) == 1


async def test_a_newer_schema_is_no_obstacle(either: Any) -> None:
    version = await either.call(calls.admin.schema_version())
    await sql(either, "update pgq.installation set version = version + 1")
    assert await either.call(calls.admin.schema_version()) == version + 1
    await _expect_delivery(either, "orders")


async def test_drop_asks_for_force_where_consumers_are(orders: Any) -> None:
    with pytest.raises(QueueInUse) as caught:
        await orders.drop_queue("orders")
    assert caught.value.queue == "orders"
    assert "force" in str(caught.value)
    assert await orders.drop_queue("orders", True) == 1
    with pytest.raises(QueueNotFound):
        await orders.drop_queue("orders")


SETTINGS: list[tuple[str, Any, str, Any]] = [
    ("ticker_max_count", 7, "queue_ticker_max_count", 7),
    ("ticker_max_count", "8", "queue_ticker_max_count", 8),
    ("ticker_max_lag", timedelta(seconds=1.5), "queue_ticker_max_lag", timedelta(seconds=1.5)),
    ("ticker_idle_period", "90 s", "queue_ticker_idle_period", timedelta(seconds=90)),
    ("rotation_period", timedelta(days=2), "queue_rotation_period", timedelta(days=2)),
    ("ticker_paused", True, "queue_ticker_paused", True),
    ("external_ticker", "true", "queue_external_ticker", True),
]


async def test_setting_takes_sql_text_or_the_python_value(
    orders: Any, subtests: pytest.Subtests
) -> None:
    for param, value, field, becomes in SETTINGS:
        with subtests.test(param, value=value):
            assert await orders.set_queue_config("orders", param, value) == 1
            (info,) = await orders.get_queue_info("orders")
            assert getattr(info, field) == becomes


async def test_unknown_setting_and_queue_are_refused(orders: Any) -> None:
    with refused("PQ010") as caught:
        await orders.set_queue_config("orders", "colour", "red")
    assert caught.value.parameter == "colour"
    assert "colour" in str(caught.value)
    with pytest.raises(QueueNotFound):
        await orders.set_queue_config("nope", "ticker_max_count", 1)


async def test_setting_of_the_wrong_kind_is_refused(orders: Any, subtests: pytest.Subtests) -> None:
    for value in ("many", "", None, "-1 potato"):
        with subtests.test(value=value), pytest.raises(InvalidArgument):
            await orders.set_queue_config("orders", "ticker_max_count", value)


async def test_queue_info_tells_of_one_or_all(orders: Any) -> None:
    await orders.create_queue("another")
    infos = await orders.get_queue_info()
    assert [info.queue_name for info in infos] == ["another", "orders"]
    (info,) = await orders.get_queue_info("orders")
    assert type(info) is QueueInfo
    assert info.queue_ntables == 3
    assert info.ticker_lag is not None
    assert info.ticker_lag >= timedelta(0)
    assert info.ev_new == 0
    assert await orders.get_queue_info("nope") == []


async def test_consumer_info_tells_of_one_or_all(orders: Any) -> None:
    await orders.create_queue("another")
    await orders.register_consumer("another", "billing")
    await orders.register_consumer("another", "audit")
    names = [(i.queue_name, i.consumer_name) for i in await orders.get_consumer_info()]
    assert names == [("another", "audit"), ("another", "billing"), ("orders", "billing")]
    assert len(await orders.get_consumer_info("another")) == 2
    assert len(await orders.get_consumer_info(consumer="billing")) == 2
    (info,) = await orders.get_consumer_info("orders", "billing")
    assert type(info) is ConsumerInfo
    assert info.current_batch is None
    assert info.pending_events == 0
    assert await orders.get_consumer_info("orders", "nope") == []


async def test_open_batch_and_pending_events_show(orders: Any) -> None:
    await orders.insert_events("orders", [("t", "d")] * 5)
    await orders.tick_queue("orders")
    batch = await orders.next_batch("orders", "billing")
    (info,) = await orders.get_consumer_info("orders")
    assert (info.current_batch, info.next_tick) == (batch.id, batch.tick_id)
    assert (info.last_tick, info.pending_events) == (batch.prev_tick_id, 5)
