"""Many retries at once, and dead events, on both clients."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from pgqpy import ConsumerNotFound, Event, InvalidArgument, calls
from pgqpy.calls.dead_events import LONGEST_TRACEBACK
from pgqpy.records import ConsumerCounts, DeadEvent, Failure
from tests.client.conftest import next_batch
from tests.client.either import sql
from tests.support.errors import Mute, raised
from tests.support.sqlstates import refused


async def opened(client: Any, count: int) -> tuple[Any, list[Event]]:
    batch = await next_batch(client, *[("t", str(i)) for i in range(count)])
    return batch, [event async for event in client.get_batch_events(batch)]


async def test_many_events_are_retried_each_after_its_time(orders: Any) -> None:
    batch, events = await opened(orders, 4)
    tomorrow = datetime.now(timezone.utc) + timedelta(days=1)
    pairs: Any = zip(events, [0, 0.0, timedelta(hours=1), tomorrow], strict=True)
    assert await orders.call(calls.consume.event_retry_many(batch, pairs)) == 4
    for none in ([(events[0], 5)], []):
        assert await orders.call(calls.consume.event_retry_many(batch, none)) == 0
    await orders.finish_batch(batch)
    assert await orders.call(calls.maintain.maint_retry_events()) == 2
    again = [event async for event in orders.get_batch_events(await next_batch(orders))]
    assert [(event.id, event.retry) for event in again] == [(e.id, 1) for e in events[:2]]


async def test_what_is_set_aside_is_counted_up_to_a_limit(orders: Any) -> None:
    await orders.register_consumer("orders", "audit")
    batch, (first, *others) = await opened(orders, 4)
    await orders.call(calls.consume.event_retry_many(batch, [(first, 60)]))
    await orders.event_dead(batch, [(event, "bad") for event in others])
    assert await orders.call(calls.admin.get_consumer_counts()) == [
        ConsumerCounts("orders", "audit", 0, 0),
        ConsumerCounts("orders", "billing", 1, 3),
    ]
    assert (await orders.call(calls.admin.get_consumer_counts(2)))[1][2:4] == (1, 2)
    assert (await orders.call(calls.admin.get_consumer_counts(None)))[1][2:4] == (1, 3)
    with pytest.raises(InvalidArgument):
        await orders.call(calls.admin.get_consumer_counts(-1))


async def test_one_foreign_event_and_none_is_retried(orders: Any) -> None:
    batch, events = await opened(orders, 2)
    foreign = events[1]._replace(id=4711)
    for call in (
        lambda: orders.call(calls.consume.event_retry_many(batch, [(events[0], 1), (foreign, 1)])),
        lambda: orders.event_dead(batch, [(events[0], "a"), (foreign, "b")]),
    ):
        with refused("PQ004") as caught:
            await call()
        assert caught.value.batch_id == batch.id
    assert await sql(orders, "select count(*) from pgq.retry_queue") == [(0,)]
    assert await orders.get_dead_events("orders", "billing") == []


async def test_an_id_alone_and_what_is_no_reason_are_refused(orders: Any) -> None:
    batch, events = await opened(orders, 1)
    pair: Any = (events[0].id, 1)
    with pytest.raises(TypeError, match="Event is needed"):
        await orders.call(calls.consume.event_retry_many(batch, [pair]))
    with pytest.raises(TypeError, match="Event is needed"):
        await orders.event_dead(batch, [(events[0].id, "why")])
    with pytest.raises(TypeError, match="a str or an exception, not int"):
        await orders.event_dead(batch, [(events[0], 5)])


async def test_dead_events_are_kept_with_their_reason(orders: Any) -> None:
    batch, events = await opened(orders, 3)
    reasons = ["one", None, "nul \0 and \ud800"]
    assert await orders.event_dead(batch, zip(events, reasons, strict=True)) == 3
    for none in ([(events[0], "again")], []):
        assert await orders.event_dead(batch, none) == 0
    dead = await orders.get_dead_events("orders", "billing")
    assert all(type(event) is DeadEvent for event in dead)
    assert [event.ev_id for event in dead] == [event.id for event in reversed(events)]
    assert [event.ev_data for event in dead] == ["2", "1", "0"]
    assert [event.dead_reason for event in dead] == ["nul \\0 and \\ud800", "", "one"]


@pytest.mark.parametrize(
    ("error", "name", "reason"),
    [
        (ValueError("no\nway"), "ValueError", r"no\nway"),
        (ValueError(), "ValueError", ""),
        (ValueError("a\0b\ud800\x1b[2J"), "ValueError", r"a\x00b\ud800\x1b[2J"),
        (InvalidArgument("wrong", parameter="x"), "pgqpy.errors.InvalidArgument", "wrong"),
        (Mute(), "tests.support.errors.Mute", "(its text cannot be had: str() raises LookupError)"),
        (ValueError("x" * 10_000_000), "ValueError", "x" * 999 + "…"),
    ],
    ids=["lines", "empty", "unprintable", "module", "mute", "long"],
)
async def test_an_exception_is_kept_with_class_text_and_traceback(
    orders: Any, error: Exception, name: str, reason: str
) -> None:
    batch, (event,) = await opened(orders, 1)
    assert await orders.event_dead(batch, [(event, raised(error))]) == 1
    (dead,) = await orders.get_dead_events("orders", "billing")
    assert (dead.dead_error, dead.dead_reason, dead.dead_tries) == (name, reason, 1)
    assert dead.dead_traceback.startswith("Traceback (most recent call last):\n  File ")
    assert "raise error\n" in dead.dead_traceback
    assert len(dead.dead_traceback) < LONGEST_TRACEBACK


async def test_a_long_traceback_loses_its_middle(orders: Any) -> None:
    batch, (event,) = await opened(orders, 1)
    error = ValueError("y" * 1000)
    for _ in range(50):
        error, error.__cause__ = ValueError("z" * 1000), error
    await orders.event_dead(batch, [(event, error)])
    (dead,) = await orders.get_dead_events("orders", "billing")
    lines = dead.dead_traceback.split("\n")
    assert (lines[0][:15], lines[-1][:15]) == ("ValueError: yyy", "ValueError: zzz")
    assert "  …" in lines
    assert len(dead.dead_traceback) <= LONGEST_TRACEBACK


async def test_a_reason_without_an_exception_is_cut_and_has_no_class(orders: Any) -> None:
    batch, events = await opened(orders, 2)
    killed = Failure("its handler ended the process", tries=2**31)
    assert await orders.event_dead(batch, [(events[0], "z" * 10_000_000), (events[1], killed)]) == 2
    other, long = await orders.get_dead_events("orders", "billing")
    assert (long.dead_error, long.dead_traceback, long.dead_tries) == (None, None, 1)
    assert long.dead_reason == "z" * 999 + "…"
    assert (other.dead_reason, other.dead_tries) == ("its handler ended the process", 2**31 - 1)


async def test_dead_events_are_revived_all_or_by_id(orders: Any) -> None:
    batch, events = await opened(orders, 3)
    await orders.event_dead(batch, [(event, "why") for event in events])
    await orders.finish_batch(batch)
    first, second, third = (event.id for event in events)
    assert await orders.revive_dead_events("orders", "billing", [second]) == [second]
    assert await orders.revive_dead_events("orders", "billing", []) == []
    assert await orders.revive_dead_events("orders", "billing") == [first, third]
    assert await orders.get_dead_events("orders", "billing") == []
    assert await orders.call(calls.maintain.maint_retry_events()) == 3
    again = [event async for event in orders.get_batch_events(await next_batch(orders))]
    assert [event.id for event in again] == [event.id for event in events]


async def test_dead_events_are_deleted_all_or_by_id(orders: Any) -> None:
    batch, events = await opened(orders, 3)
    await orders.event_dead(batch, [(event, "why") for event in events])
    first, second, third = (event.id for event in events)
    assert await orders.delete_dead_events("orders", "billing", [first, 4711]) == [first]
    assert await orders.delete_dead_events("orders", "billing") == [second, third]
    assert await orders.get_dead_events("orders", "billing") == []


async def test_filters_of_dead_events_are_arguments(orders: Any) -> None:
    batch, events = await opened(orders, 4)
    errors = [ValueError("a"), "no error", ValueError("b"), ValueError("c")]
    await orders.event_dead(batch, zip(events, errors, strict=True))
    soon = datetime.now(timezone.utc) + timedelta(hours=1)
    naive = datetime(2020, 1, 1)  # noqa: DTZ001  # naive is the system's zone, as for psycopg
    wanted: Any = {"type": "t", "error": "ValueError", "since": naive, "until": soon}
    ids = [event.id for event in events]
    found = await orders.get_dead_events("orders", "billing", ids[1:], **wanted, limit=1)
    assert [event.ev_id for event in found] == [ids[3]]
    (count,) = await orders.call(
        calls.dead_events.get_dead_event_counts("orders", "billing", **wanted)
    )
    assert count[:3] == ("t", "ValueError", 3)
    assert await orders.revive_dead_events("orders", "billing", **wanted, limit=1) == [ids[0]]
    assert await orders.delete_dead_events("orders", "billing", **wanted, after=ids[2]) == [ids[3]]
    for wrong in ({"type": "a\0"}, {"error": 5}, {"since": "2h"}, {"limit": -1}, {"after": "x"}):
        with pytest.raises(InvalidArgument) as caught:
            await orders.revive_dead_events("orders", "billing", **wrong)
        assert {caught.value.parameter} == set(wrong)


async def test_dead_events_are_read_in_bounded_steps(orders: Any) -> None:
    batch, events = await opened(orders, 4)
    await orders.event_dead(batch, [(event, "why") for event in events])
    bounds = await orders.call(calls.dead_events.get_dead_event_bounds("orders", "billing", look=3))
    ids = [event.id for event in events]
    assert bounds == (ids[1], ids[3], 3, True)
    step = {"after": bounds.first_id - 1, "before": ids[3]}
    found = await orders.get_dead_events("orders", "billing", **step)
    assert [event.ev_id for event in found] == [ids[2], ids[1]]
    (count,) = await orders.call(
        calls.dead_events.get_dead_event_counts("orders", "billing", **step)
    )
    assert count.dead_events == 2
    bounds = await orders.call(
        calls.dead_events.get_dead_event_bounds("orders", "billing", before=ids[0])
    )
    assert bounds == (None, None, 0, False)
    with pytest.raises(InvalidArgument):
        await orders.call(calls.dead_events.get_dead_event_bounds("orders", "billing", look=0))


async def test_dead_events_of_an_unknown_consumer(orders: Any) -> None:
    for call in (
        orders.get_dead_events,
        lambda *names: orders.call(calls.dead_events.get_dead_event_bounds(*names)),
        lambda *names: orders.call(calls.dead_events.get_dead_event_counts(*names)),
        orders.revive_dead_events,
        orders.delete_dead_events,
    ):
        with pytest.raises(ConsumerNotFound) as caught:
            await call("orders", "nope")
        assert caught.value.consumer == "nope"


async def test_spans_count_from_the_clock_in_a_long_transaction(orders: Any) -> None:
    batch, (event,) = await opened(orders, 1)
    async with orders.transaction():
        while await sql(orders, "select clock_timestamp() - now() < interval '0.2 s'") == [(True,)]:
            pass  # until the transaction has run for a while
        await orders.call(calls.consume.event_retry_many(batch, [(event, 0.1)]))
        late = "select ev_retry_after - now() > interval '0.3 s' from pgq.retry_queue"
        assert await sql(orders, late) == [(True,)]


async def test_retried_events_are_counted_by_when_they_are_due(orders: Any) -> None:
    batch, events = await opened(orders, 2)
    times = zip(events, (0, 3600 * 48), strict=True)
    await orders.call(calls.consume.event_retry_many(batch, times))
    counts = await orders.call(calls.admin.get_retry_counts("orders", "billing"))
    assert counts == [(timedelta(0), 1), (None, 1)]
    with pytest.raises(ConsumerNotFound):
        await orders.call(calls.admin.get_retry_counts("orders", "nobody"))
    with pytest.raises(InvalidArgument):
        await orders.call(calls.admin.get_retry_counts("orders", "billing", -1))
