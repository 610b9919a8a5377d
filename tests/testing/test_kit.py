"""The kit for tests: time that moves, what was emitted, and events without a database."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

import pgqpy
from pgqpy.consumers import Consumer, Retry
from pgqpy.testing import advance, emitted

HOUR = timedelta(hours=1)


class Placed(pgqpy.TypedEvent, queue="orders", type="placed"):
    total: Decimal


class Late(Consumer, queue="orders"):
    def process_event(self, event):
        if not event.retry:
            raise Retry(after=HOUR)


@pytest.mark.parametrize("settings", [{"name": "billing"}, {"name": "sharing", "shared": True}])
def test_retries_and_delays_are_due_when_time_has_passed(
    client: pgqpy.Client, dsn: str, new_orders: str, settings: Any
) -> None:
    consumer = Late(dsn, **settings)
    consumer.drain()
    client.insert_event("orders", "placed", "now")
    assert consumer.drain() == (0, 1, 0)
    client.insert_event("orders", "placed", "later", delay=2 * HOUR)
    advance(dsn, minutes=59)
    assert consumer.drain() == (0, 0, 0)
    advance(dsn, minutes=2)
    assert consumer.drain() == (1, 0, 0)
    advance(dsn, hours=1)
    assert consumer.drain() == (0, 1, 0)


def test_time_passes_also_for_a_consumer_that_has_looked_just_now(
    client: pgqpy.Client, dsn: str, new_orders: str
) -> None:
    consumer = Late(dsn, name="sharing", shared=True)
    consumer.drain()
    client.insert_event("orders", "placed", "now")
    assert consumer.drain() == (0, 1, 0)
    swept = "front_due = now() - interval '3 s', front_looked = now(), front_swept = now()"
    client.connection.execute(f"update pgq.front set {swept}".encode())
    advance(dsn, hours=3)
    assert consumer.drain() == (1, 0, 0)


def test_leases_and_dedup_keys_end_when_time_has_passed(
    client: pgqpy.Client, dsn: str, new_orders: str
) -> None:
    receive = partial(client.receive, "orders", "sharing", wait=0)
    assert receive() == []
    once: dict[str, Any] = {"dedup_key": "17", "dedup_for": 60}
    first = client.insert_event("orders", "placed", "a", **once)
    assert [message.event.id for message in receive()] == [first]
    assert receive() == []
    assert client.insert_event("orders", "placed", "a", **once) == first
    advance(dsn, seconds=70)
    assert [message.event.id for message in receive()] == [first]
    assert client.insert_event("orders", "placed", "a", **once) > first


def test_emitted_lists_what_was_committed_in_order_without_retried_copies(
    client: pgqpy.Client, dsn: str, new_orders: str
) -> None:
    client.create_queue("mails")
    client.insert(Placed(total=Decimal(1)), delay=HOUR)
    client.insert(Placed(total=Decimal(2)))
    client.insert_event("orders", "paid", "text", "a", "b", "c", "d")
    client.insert_event("mails", "placed", "other")
    Late(dsn, name="billing").drain()
    advance(dsn, hours=1)
    Late(dsn, name="billing").drain()
    assert emitted(dsn, Placed) == [Placed(total=Decimal(1)), Placed(total=Decimal(2))]
    assert [(event.type, event.data, event.extra4) for event in emitted(dsn, "orders")] == [
        ("placed", '{"total":"1"}', None),
        ("placed", '{"total":"2"}', None),
        ("paid", "text", "d"),
    ]
    assert [event.data for event in emitted(dsn, "mails")] == ["other"]
    with pytest.raises(pgqpy.QueueNotFound, match="no queue 'letters'"):
        emitted(dsn, "letters")
    with pytest.raises(TypeError, match="int is no typed event"):
        emitted(dsn, int)


def test_an_event_is_made_as_consumers_get_it() -> None:
    made = pgqpy.Event.make("placed", {"total": Decimal("1.50")}, extra2=17, retry=3)
    assert (made.type, made.data, made.extra2) == ("placed", '{"total":"1.50"}', "17")
    assert (made.id, made.retry, made.json()) == (1, 3, {"total": "1.50"})
    assert datetime.now(timezone.utc) - made.time < HOUR
    assert pgqpy.Event.make(None, id=7).data is None
    with pytest.raises(pgqpy.InvalidEvent, match="data \\$ has a key of type int"):
        pgqpy.Event.make("placed", {1: 2})
