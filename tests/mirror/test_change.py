"""`Change.of` reads every change, and nothing else."""

from __future__ import annotations

import asyncio
import json
import pickle
from datetime import datetime, timezone
from decimal import Decimal
from typing import NamedTuple

import pytest

from pgqpy import Change, Event
from pgqpy.consumers import AsyncConsumer, Consumer
from pgqpy.records.changes import Types
from tests.mirror.conftest import ITEM, QUEUE

NOW = datetime.now(timezone.utc)
PLACED = '{"id":1,"placed":"2026-02-28T23:59:59.123456+00:00","paid":null}'


def event(kind: str | None, data: str | None = None, *extras: str | None) -> Event:
    return Event(7, NOW, 1, None, kind, data, *extras)


def changes(shop) -> list[Change]:
    shop.tick()
    batch = shop.client.next_batch(QUEUE, "mirror")
    found = [Change.of(each) for each in shop.client.get_batch_events(batch)]
    shop.client.finish_batch(batch)
    return found


def test_a_change_of_each_kind(shop):
    shop.capture("public.item", ITEM, mirrored=False)
    shop.source.execute("""
        insert into item values (1, 'a', 1.10);
        update item set name = null;
        update item set id = 2;
        delete from item;
        truncate item""")
    first = {"id": 1, "name": "a", "price": Decimal("1.10")}
    second = {**first, "name": None}
    moved = {**second, "id": 2}
    assert changes(shop) == [
        Change("insert", "public.item", "1", first),
        Change("update", "public.item", "1", second, first),
        Change("delete", "public.item", "1", second),
        Change("insert", "public.item", "2", moved),
        Change("delete", "public.item", "2", moved),
        Change("truncate", "public.item", None, None),
    ]


def test_a_key_of_several_columns_is_a_json_array(shop):
    shop.capture(
        "public.line",
        "create table line (a int, b text, primary key (b, a))",
        mirrored=False,
    )
    shop.source.execute("insert into line values (1, 'x')")
    (change,) = changes(shop)
    assert change.key is not None
    assert json.loads(change.key) == ["x", "1"]


def test_numbers_lose_no_digit():
    text = '{"id":9007199254740993,"n":0.12345678901234567890123,"x":1e400,"j":{"a":[1.10]}}'
    row = Change.of(event("public.t.snapshot", text, "1")).row or {}
    assert row["id"] == 9007199254740993
    assert str(row["n"]) == "0.12345678901234567890123"
    assert row["x"] == Decimal("1e400")
    assert str(row["j"]["a"][0]) == "1.10"


def test_types_convert_the_values_of_columns():
    types: Types = {"public.t": {"placed": datetime.fromisoformat, "paid": int, "gone": int}}
    change = Change.of(event("public.t.update", PLACED, "1", PLACED), types)
    expected = datetime(2026, 2, 28, 23, 59, 59, 123456, timezone.utc)
    assert change.row == change.old == {"id": 1, "placed": expected, "paid": None}
    other = Change.of(event("public.u.insert", PLACED, "1"), types)
    assert other.row == json.loads(PLACED)


def test_a_name_with_dots_keeps_them():
    assert Change.of(event("My.Shop.insert.delete", "{}", "1")).table == "My.Shop.insert"


class Row(NamedTuple):
    """A row as Spark and SQL return it."""

    ev_id: int
    ev_type: str
    ev_data: str
    ev_extra1: str
    ev_extra2: str | None


def test_rows_with_the_names_of_columns_are_read_too():
    change = Change.of(Row(1, "a.b.insert", '{"id":1}', "1", None))
    assert change == Change("insert", "a.b", "1", {"id": 1})
    assert pickle.loads(pickle.dumps(change)) == change


@pytest.mark.parametrize(
    "wrong",
    [
        event("order.placed", "{}", "1"),
        event(None),
        event("insert", "{}", "1"),
        event("item.insert", "{}", "1"),
        event("public.item.insert", "no JSON", "1"),
        event("public.item.insert", "[1]", "1"),
        event("public.item.update", None, "1"),
        event("public.item.insert", "{}", None),
    ],
)
def test_an_event_that_is_no_change_is_refused(wrong):
    with pytest.raises(ValueError, match="event 7 is no change of a captured table"):
        Change.of(wrong)


@pytest.mark.parametrize("base", [Consumer, AsyncConsumer])
@pytest.mark.parametrize("shared", [False, True])
def test_every_kind_of_consumer_gets_changes(shop, base, shared):
    shop.capture("public.item", ITEM, mirrored=False)
    seen: list[Change] = []

    class Sync(Consumer):
        def process_event(self, event):
            seen.append(Change.of(event))
            self.stop()

    class Async(AsyncConsumer):
        async def process_event(self, event):
            seen.append(Change.of(event))
            self.stop()

    kind = Sync if base is Consumer else Async
    name = "reader"
    shop.client.register_consumer(QUEUE, name, shared=shared)
    shop.source.execute("insert into item values (1, 'a', 1)")
    shop.tick()
    outcome = kind(shop.dsn, queue=QUEUE, name=name, shared=shared or None).run()
    if outcome is not None:
        asyncio.run(outcome)
    assert [change.key for change in seen] == ["1"]
