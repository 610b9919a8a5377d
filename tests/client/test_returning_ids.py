"""insert_events(returning_ids=True): ids in order, all or nothing, in pieces."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import pgqpy
from pgqpy import InvalidEvent
from pgqpy.calls import bulk
from tests.client.test_insert_events import SHAPES

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
    events = [*SHAPES, (None, None, "", "\\N", '{"}', "NULL")]
    await orders.insert_events("orders", events)
    ids = await orders.insert_events("orders", events, returning_ids=True)
    assert ids == list(range(9, 17))
    assert inserted()[:8] == inserted()[8:]


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
