"""insert_events(returning_ids=True): ids in order, all or nothing, in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import pgqpy
from pgqpy import InvalidEvent, QueueNotFound, connect_async
from pgqpy.calls import bulk
from tests.client.test_insert_events import Order
from tests.support.sqlstates import refused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

STORED = "select array_agg(ev_id order by ev_data::int) from pgq.event_template"


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send pieces of three events."""
    monkeypatch.setattr(bulk, "MOST_EVENTS", 3)


@pytest.mark.usefixtures("_small")
async def test_ids_come_in_the_order_of_the_events(
    orders: Any, connection: psycopg.Connection[Any]
) -> None:
    for count in (0, 3, 100):
        ids = await orders.insert_events(
            "orders", (("t", str(i)) for i in range(count)), returning_ids=True
        )
        assert len(ids) == count
        stored = connection.execute(STORED).fetchone()
        assert stored is not None
        assert (stored[0] or []) == ids
        connection.execute("truncate pgq.event_1")


@pytest.mark.usefixtures("_small")
async def test_every_form_of_event_arrives_as_by_copy(orders: Any, inserted: Any) -> None:
    events = [
        ("a", "tuple"),
        ["b", {"list": 1}, None, b"x"],
        {"type": "c", "data": None, "extra4": "four"},
        Order("d", "object", 1),
        (None, None, "", "\\N", '{"}', "NULL"),
    ]
    await orders.insert_events("orders", events)
    ids = await orders.insert_events("orders", events, returning_ids=True)
    assert ids == list(range(6, 11))
    assert inserted()[:5] == inserted()[5:]


@pytest.mark.usefixtures("_small")
async def test_bad_event_is_named_and_nothing_is_inserted(orders: Any, inserted: Any) -> None:
    async with orders.transaction():
        await orders.insert_event("orders", "kept", None)
        with pytest.raises(InvalidEvent, match="event 7: data contains a NUL") as caught:
            await orders.insert_events(
                "orders", [("t", "\0" if i == 7 else "d") for i in range(9)], returning_ids=True
            )
        assert (caught.value.index, caught.value.field) == (7, "data")
    assert [row[0] for row in inserted()] == ["kept"]


@pytest.mark.usefixtures("_small")
async def test_limit_of_a_transaction_holds(orders: Any, inserted: Any) -> None:
    await orders.set_queue_config("orders", "per_tx_limit", 4)
    with refused("PQ007"):
        await orders.insert_events("orders", [("t", "d")] * 5, returning_ids=True)
    assert inserted() == []
    with pytest.raises(QueueNotFound):
        await orders.insert_events("nope", [("t", "d")], returning_ids=True)


async def test_what_the_iterable_raises_is_passed_on(orders: Any, inserted: Any) -> None:
    def events() -> Iterator[Any]:
        yield from [("t", "d")] * 2000
        raise psycopg.errors.RaiseException

    with pytest.raises(psycopg.errors.RaiseException):
        await orders.insert_events("orders", events(), returning_ids=True)
    assert inserted() == []


async def test_async_client_takes_async_iterables(dsn: str, new_orders: str) -> None:
    async def events() -> AsyncIterator[Any]:
        for i in range(1500):
            yield "t", str(i)

    async with await connect_async(dsn) as client:
        ids = await client.insert_events("orders", events(), returning_ids=True)
    assert ids == list(range(1, 1501))


def test_pieces_are_bounded_in_events_and_octets() -> None:
    piece = bulk.Piece(5)
    for _ in range(bulk.MOST_EVENTS):
        assert not piece.full
        piece.add(("t", "d"), 100)
    assert piece.full
    large = bulk.Piece(0)
    large.add(("t", "d" * bulk.MOST_OCTETS), 10**9)
    assert (len(large), large.full) == (1, True)


def test_types_say_what_comes_back(queue: pgqpy.Client) -> None:
    count: int = queue.insert_events("orders", [("t", "d")])
    ids: list[int] = queue.insert_events("orders", [("t", "d")], returning_ids=True)
    assert (count, ids) == (1, [2])
