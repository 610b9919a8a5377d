"""insert_event and insert_events with a delay or a time, by both clients."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from pgqpy import InvalidArgument, InvalidEvent, QueueNotFound, calls
from pgqpy.calls import bulk

FAR = datetime(2100, 1, 31, 14, tzinfo=timezone.utc)


async def test_event_with_a_delay_waits_with_all_its_fields(orders: Any, inserted: Any) -> None:
    event_id = await orders.insert_event("orders", "t", {"a": 1}, "1", "2", "3", "4", delay=3600)
    assert inserted() == []
    (found,) = await orders.get_delayed_events("orders")
    assert found.ev_id == event_id
    assert found.ev_deliver_at - found.ev_time > timedelta(seconds=3599)
    assert found[4:] == ("t", '{"a":1}', "1", "2", "3", "4")


async def test_time_may_be_a_timedelta_or_a_datetime(orders: Any) -> None:
    await orders.insert_event("orders", "t", "day", delay=timedelta(days=1))
    await orders.insert_event("orders", "t", "aware", deliver_at=FAR)
    await orders.insert_event(
        "orders", "t", "naive", deliver_at=FAR.astimezone().replace(tzinfo=None)
    )
    found = await orders.get_delayed_events("orders")
    assert [(each.ev_data, each.ev_deliver_at == FAR) for each in found] == [
        ("day", False),
        ("aware", True),
        ("naive", True),
    ]
    assert await orders.get_delayed_events("orders", limit=1) == found[:1]


async def test_time_that_has_passed_means_now(orders: Any, inserted: Any) -> None:
    await orders.insert_event("orders", "t", "a", delay=0)
    await orders.insert_event("orders", "t", "b", deliver_at=datetime(1999, 1, 1))  # noqa: DTZ001  # naive
    assert await orders.insert_events("orders", [("t", "c")], delay=0) == 1
    assert [data for _, data, *_ in inserted()] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "times",
    [{"delay": 1, "deliver_at": FAR}, {"delay": -1}, {"delay": "1"}, {"deliver_at": "2100-01-01"}],
)
async def test_wrong_times_are_refused(orders: Any, times: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        await orders.insert_event("orders", "t", "a", **times)
    with pytest.raises(InvalidArgument):
        await orders.insert_events("orders", [("t", "a")], **times)


async def test_time_too_far_ahead_is_refused_by_the_server(orders: Any) -> None:
    with pytest.raises(InvalidArgument, match="100 years"):
        await orders.insert_event(
            "orders", "t", "a", deliver_at=datetime(9999, 1, 1, tzinfo=timezone.utc)
        )


async def test_many_events_are_due_at_one_time(orders: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(bulk, "MOST_EVENTS", 10)
    events = [("t", str(number), None, "x") for number in range(25)]
    assert await orders.insert_events("orders", events, delay=3600) == 25
    found = await orders.get_delayed_events("orders")
    assert [(each.ev_data, each.ev_extra2) for each in found] == [
        (data, "x") for _, data, *_ in events
    ]
    assert len({each.ev_deliver_at for each in found}) == 1
    assert [count[:2] for count in await orders.call(calls.produce.get_delayed_counts())] == [
        ("orders", 25)
    ]


async def test_wrong_event_among_many_is_named_and_nothing_is_inserted(
    orders: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(bulk, "MOST_OCTETS", 1)
    with pytest.raises(InvalidEvent) as failed:
        await orders.insert_events("orders", [("t", "a"), ("t", "b\0")], delay=3600)
    assert failed.value.index == 1
    assert await orders.get_delayed_events("orders") == []
    with pytest.raises(QueueNotFound):
        await orders.insert_events("missing", [("t", "a")], delay=3600)
