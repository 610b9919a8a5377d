"""insert_events: any iterable, all or nothing, in bounded memory."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
import pytest

import pgqpy
from pgqpy import Event, InvalidEvent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@dataclass
class Order:
    type: str
    data: Any
    extra1: Any = None


class Pair(NamedTuple):
    data: str
    type: str


SHAPES: list[Any] = [
    ("a", "tuple"),
    ["b", {"list": 1}, None, b"x"],
    {"type": "c", "data": None, "extra4": "four"},
    Order("d", "object", 1),
    Event(1, datetime.now(timezone.utc), 1, 5, "e", "event", "1", "2", "3", "4"),
    Pair("by name", "f"),
    (None, None, "", "", "", ""),
]


async def test_every_shape_of_event_is_taken(orders: Any, inserted: Any) -> None:
    assert await orders.insert_events("orders", SHAPES) == 7
    assert inserted() == [
        ("a", "tuple", None, None, None, None),
        ("b", '{"list":1}', None, "x", None, None),
        ("c", None, None, None, None, "four"),
        ("d", "object", "1", None, None, None),
        ("e", "event", "1", "2", "3", "4"),
        ("f", "by name", None, None, None, None),
        (None, None, "", "", "", ""),
    ]


async def test_no_events_are_zero_events(orders: Any, inserted: Any) -> None:
    assert await orders.insert_events("orders", []) == 0
    assert await orders.insert_events("orders", iter(())) == 0
    assert inserted() == []


async def test_more_than_a_buffer_arrives_in_order(orders: Any, inserted: Any) -> None:
    assert await orders.insert_events("orders", (("t", str(i)) for i in range(20_000))) == 20_000
    assert [row[1] for row in inserted()] == [str(i) for i in range(20_000)]


@pytest.mark.parametrize("fields", [2, 3, 6])
async def test_what_copy_would_misread_arrives_as_it_is(
    orders: Any, inserted: Any, fields: int
) -> None:
    plain = ["t", "d", "1", "2", "3", "4"][:fields]
    for place, unusual in product(range(fields), ["\t", "\n", "\r", "\\", "\\N", "é", ""]):
        odd = [*plain[:place], f"a{unusual}b", *plain[place + 1 :]]
        events = [tuple(plain), tuple(odd), tuple(plain)]
        assert await orders.insert_events("orders", events) == 3
        ends = [None] * (6 - fields)
        assert inserted()[-3:] == [(*event, *ends) for event in events]


async def test_events_of_different_lengths_arrive_side_by_side(orders: Any, inserted: Any) -> None:
    events = [("t", "d", "1"), ("t", "d"), ("t", "d", "1", "2", "3", "4"), ("t", "d")]
    assert await orders.insert_events("orders", events * 50) == 200
    assert inserted() == [event + (None,) * (6 - len(event)) for event in events * 50]


BAD: list[tuple[Any, str | None]] = [
    (("t", "a\0b"), "data"),
    (("t", "d", "\ud800"), "extra1"),
    ((7, "d"), "type"),
    ((b"paid", "d"), "type"),
    (({"a": 1}, "d"), "type"),
    (("t",), None),
    (("t", "d", 1, 2, 3, 4, 5), None),
    ({"type": "t"}, "data"),
    ({"data": "t"}, "type"),
    ({"type": "t", "data": "d", "extra5": ""}, "extra5"),
    ("a string", None),
    (17, None),
    (None, None),
    (("t", object()), "data"),
]


async def test_bad_event_in_the_middle_inserts_nothing_and_is_named(
    orders: Any, inserted: Any, subtests: pytest.Subtests
) -> None:
    many = [("t", "x" * 1000)] * 200  # some were sent before the bad one is met
    for bad, field in BAD:
        with subtests.test(bad=bad):
            with pytest.raises(InvalidEvent) as caught:
                await orders.insert_events("orders", [*many, bad, *many])
            assert caught.value.index == 200
            assert caught.value.field == field
            assert str(caught.value).startswith("event 200: ")
            assert inserted() == []
    assert await orders.insert_events("orders", [("t", "d")]) == 1


@pytest.mark.parametrize("returning_ids", [False, True])
async def test_iterable_that_raises_inserts_nothing(
    orders: Any, inserted: Any, returning_ids: bool
) -> None:
    def events() -> Iterator[Any]:
        yield from [("t", "d")] * 2000
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await orders.insert_events("orders", events(), returning_ids=returning_ids)
    assert inserted() == []


@pytest.mark.parametrize(
    "query", ["select pgq.current_event_table('elsewhere')", "select 1 from nowhere"]
)
async def test_what_the_iterable_raises_is_not_taken_for_the_queues_error(
    orders: Any, inserted: Any, connection: psycopg.Connection[Any], query: str
) -> None:
    mine: list[psycopg.Error] = []

    def events() -> Iterator[Any]:
        yield "t", "d"
        try:
            connection.execute(query.encode())
        except psycopg.Error as exc:
            mine.append(exc)
            raise

    with pytest.raises(psycopg.Error) as caught:
        await orders.insert_events("orders", events())
    assert caught.value is mine[0]
    assert inserted() == []


async def test_per_tx_limit_is_not_for_copy(orders: Any) -> None:
    await orders.set_queue_config("orders", "per_tx_limit", "1")
    assert await orders.insert_events("orders", [("t", "d")] * 2) == 2


async def test_one_event_for_many_is_refused(orders: Any, subtests: pytest.Subtests) -> None:
    for events in ("abc", b"abc", {"type": "t", "data": "d"}, 17, None):
        with subtests.test(events=events), pytest.raises(InvalidEvent, match="iterable of events"):
            await orders.insert_events("orders", events)


async def test_async_client_takes_async_iterables(dsn: str) -> None:
    async def events() -> AsyncIterator[Any]:
        for i in range(3):
            yield "t", str(i)

    async with await pgqpy.connect_async(dsn) as client:
        await client.create_queue("orders")
        assert await client.insert_events("orders", events()) == 3
        assert await client.insert_events("orders", events(), returning_ids=True) == [4, 5, 6]


async def test_bad_event_leaves_the_applications_transaction_usable(
    orders: Any, inserted: Any
) -> None:
    async with orders.transaction():
        await orders.insert_event("orders", "t", "before")
        with pytest.raises(InvalidEvent):
            await orders.insert_events("orders", [("t", "lost"), ("t", "\0")])
        await orders.insert_events("orders", [("t", "after")])
    assert [row[1] for row in inserted()] == ["before", "after"]


async def test_cancelled_load_inserts_nothing_and_leaves_the_connection_usable(dsn: str) -> None:
    waiting = asyncio.Event()

    async def events() -> AsyncIterator[Any]:
        yield "t", "x" * 100_000
        waiting.set()
        await asyncio.Event().wait()

    async with await pgqpy.connect_async(dsn) as client:
        await client.create_queue("orders")
        load = asyncio.create_task(client.insert_events("orders", events()))
        await waiting.wait()
        load.cancel()
        with pytest.raises(asyncio.CancelledError):
            await load
        assert await client.insert_events("orders", [("t", "after")]) == 1
        cursor = await client.connection.execute("select ev_data from pgq.event_template")
        assert await cursor.fetchall() == [("after",)]


def test_it_takes_its_xid_before_it_learns_the_table(
    queue: pgqpy.Client, connection: psycopg.Connection[Any]
) -> None:
    """So every tick and rotation in between knows of the load."""
    pid = queue.connection.info.backend_pid

    def events() -> Iterator[Any]:
        row = connection.execute(
            "select backend_xid from pg_stat_activity where pid = %s", [pid]
        ).fetchone()
        assert row is not None
        assert row[0] is not None
        yield "t", "d"

    assert queue.insert_events("orders", events()) == 1
