"""The history of queues and consumers, and who changed what, on both clients."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from pgqpy import ConsumerNotFound, InvalidArgument, QueueNotFound, calls
from tests.client.either import sql


async def test_history_is_a_point_for_each_minute(orders: Any) -> None:
    assert await orders.call(calls.maintain.maint_history()) == 1
    assert await orders.call(calls.maintain.maint_history()) == 0
    await orders.insert_events("orders", [("t", "d")] * 3)
    await orders.tick_queue("orders")
    await sql(orders, "update pgq.history set hist_time = hist_time - interval '1 min' returning 1")
    assert await orders.call(calls.maintain.maint_history()) == 1
    first, second = await orders.call(calls.history.get_history("orders"))
    assert second.time - first.time > timedelta(seconds=50)
    assert (first.events_per_second, first.lag, first.pending_events) == (None, timedelta(0), 0)
    assert second.events_per_second == pytest.approx(3 / 60, rel=0.5)
    assert second[3:] == (3, 0, 0)
    now = datetime.now(timezone.utc)
    recent = await orders.call(
        calls.history.get_history("orders", now - timedelta(seconds=30), "billing")
    )
    assert [point.time for point in recent] == [second.time]


async def test_history_of_what_is_not_there(orders: Any) -> None:
    assert await orders.call(calls.history.get_history("orders")) == []
    with pytest.raises(QueueNotFound):
        await orders.call(calls.history.get_history("nope"))
    with pytest.raises(ConsumerNotFound) as caught:
        await orders.call(calls.history.get_history("orders", consumer="nope"))
    assert (caught.value.queue, caught.value.consumer) == ("orders", "nope")
    when: Any = "yesterday"
    with pytest.raises(InvalidArgument):
        await orders.call(calls.history.get_history("orders", when))


async def test_changes_are_noted_and_listed(orders: Any) -> None:
    arguments = {"pause": object(), "keys": [1, None]}
    with pytest.raises(InvalidArgument) as caught:
        await orders.call(calls.history.begin_change("pause", "orders", arguments=arguments))
    assert caught.value.parameter == "arguments"
    arguments = {"at": datetime(2026, 1, 1, tzinfo=timezone.utc), "keys": [1, None]}
    change = await orders.call(
        calls.history.begin_change("pause", "orders", "billing", arguments, user="ann")
    )
    other = await orders.call(calls.history.begin_change("resume"))
    assert await orders.call(calls.history.end_change(change, "done")) == 1
    assert await orders.call(calls.history.end_change(change, "done")) == 0
    newest, oldest = await orders.call(calls.history.get_changes())
    assert (newest.id, newest.action, newest.user, newest.outcome) == (other, "resume", None, None)
    assert oldest[3:8] == (
        "ann",
        "pause",
        "orders",
        "billing",
        {"at": "2026-01-01T00:00:00+00:00", "keys": [1, None]},
    )
    assert (oldest.outcome, oldest.end_time > oldest.time) == ("done", True)
    assert await orders.call(calls.history.get_changes(1, before=other)) == [oldest]
    with pytest.raises(InvalidArgument):
        await orders.call(calls.history.get_changes(0))
