"""What may be stored as an event, and what each refusal says."""

from __future__ import annotations

import enum
import json
import uuid
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgqpy
from pgqpy import InvalidEvent
from pgqpy.calls import payload
from pgqpy.calls.bulk import line
from pgqpy.records import Event


class Colour(str, enum.Enum):
    RED = "red"


LOOP: list[object] = []
LOOP.append(LOOP)


def text(field: str, value: payload.Payload, **options: Any) -> str | None:
    stored = payload.octets(field, value, **options)
    return None if stored is None else stored.decode()


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (None, None),
        ("", ""),
        ("plain", "plain"),
        ("é 漢 🎈", "é 漢 🎈"),
        (b"octets \xc3\xa9", "octets é"),
        (bytearray(b"octets"), "octets"),
        (Colour.RED, "red"),
        ({"a": "é", "b": [1, 2.5, None, True]}, '{"a":"é","b":[1,2.5,null,true]}'),
        ([], "[]"),
        ((1, 2), "[1,2]"),
        (0, "0"),
        (1.5, "1.5"),
        (False, "false"),
        ({"path": "C:\\u0000"}, '{"path":"C:\\\\u0000"}'),
    ],
)
def test_payload_is_stored_as(given: payload.Payload, stored: str | None) -> None:
    assert text("data", given) == stored


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("a\0b", "NUL"),
        (b"a\0b", "NUL"),
        ({"a": "x\0"}, "NUL"),
        ({"a": "\\\\\0"}, "NUL"),
        ("\ud800", "surrogate at position 0"),
        ({"a": "\udfff"}, "surrogate"),
        (b"ok\xff", "UTF-8 at byte 2"),
        (float("nan"), "JSON"),
        ([float("inf")], "JSON"),
        (object(), "JSON"),
        ({1, 2}, "JSON"),
        ({(1, 2): 3}, "JSON"),
        (LOOP, "JSON"),
    ],
)
def test_what_cannot_be_stored_is_refused_by_field(given: payload.Payload, says: str) -> None:
    with pytest.raises(InvalidEvent) as caught:
        text("extra2", given)
    assert caught.value.field == "extra2"
    assert str(caught.value).startswith("extra2 ")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


class Level(enum.Enum):
    HIGH = 3


class Model(pydantic.BaseModel):
    at: date
    price: Decimal


@dataclass
class Item:
    price: Any
    note: str | None = field(default=None, repr=False)


NOON = datetime(2026, 1, 2, 12, 0, 0, 250000, tzinfo=timezone.utc)
NUMBER = uuid.UUID("6b1d6a3e-0000-4000-8000-0123456789ab")

RULE = {
    "datetime": (NOON, "2026-01-02T12:00:00.250000+00:00"),
    "naive": (NOON.replace(tzinfo=None), "2026-01-02T12:00:00.250000"),
    "date": (date(2026, 1, 2), "2026-01-02"),
    "time": (time(12, 30), "12:30:00"),
    "timedelta": (timedelta(days=1, seconds=2), "PT86402S"),
    "negative": (timedelta(milliseconds=-1500), "-PT1.500000S"),
    "bytes": ([b"\xff\x00", bytearray(b"a")], ["/wA=", "YQ=="]),
    "keys": ({"17": 1, "true": 2, "null": 3}, {"17": 1, "true": 2, "null": 3}),
    "decimal": (Decimal("12.50"), "12.50"),
    "uuid": (NUMBER, str(NUMBER)),
    "enum": (Level.HIGH, 3),
    "text enum": (Colour.RED, "red"),
    "dataclass": (Item(Decimal(1)), {"price": "1", "note": None}),
    "model": (
        Model(at=date(2026, 1, 2), price=Decimal("1.50")),
        {"at": "2026-01-02", "price": "1.50"},
    ),
    "mapping": (MappingProxyType({"a": Level.HIGH}), {"a": 3}),
    "tuple": ((1, (2,)), [1, [2]]),
}


@pytest.mark.parametrize(("value", "written"), RULE.values(), ids=RULE.keys())
def test_known_classes_are_encoded_by_the_rule_wherever_they_are(value: Any, written: Any) -> None:
    assert json.loads(text("data", {"inner": [value]}) or "") == {"inner": [written]}
    if not isinstance(value, str):
        assert json.loads(text("data", value) or "") == written


class Money:
    """Of no class that the rule knows."""

    def __init__(self, amount: Any) -> None:
        self.amount = amount


def money(value: object) -> Any:
    if isinstance(value, Money):
        return {"amount": value.amount}
    raise TypeError(f"no rule for {type(value).__name__}")


def test_json_default_is_for_the_rest() -> None:
    given = [Money(Decimal("1.50")), Level.HIGH]
    assert text("data", given, default=money) == '[{"amount":"1.50"},3]'
    with pytest.raises(InvalidEvent, match=r"^data \$\[0\] is of type Money, which has no form"):
        text("data", given)
    with pytest.raises(InvalidEvent, match=r"^data \$\.a is of type object, whose conversion"):
        text("data", {"a": object()}, default=money)


def order(price: Any) -> dict[str, Any]:
    return {"id": 7, "items": [Item(1), Item(2), Item(3), Item(price)]}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (order(float("nan")), "$.items[3].price is nan"),
        (order(float("-inf")), "$.items[3].price is -inf"),
        (order({1, 2}), "$.items[3].price is of type set"),
        (order("a\0"), "$.items[3].price contains a NUL"),
        (order("a\ud800"), "$.items[3].price contains a lone surrogate at position 1"),
        (order({NUMBER: 1}), "$.items[3].price has a key of type UUID"),
        (order({float("nan"): 1}), "$.items[3].price has a key of type float"),
        (order({17: 1}), "$.items[3].price has a key of type int"),
        ([{True: 1}], "$[0] has a key of type bool"),
        ({None: 1}, "$ has a key of type NoneType"),
        (order({"\ud800": 1}), "$.items[3].price has a key that contains a lone surrogate"),
        (order(Money(1)), "$.items[3].price is of type Money, which has no form in JSON"),
        (order(LOOP), "$.items[3].price[0] contains itself"),
        ({"a b": [{"\n'\"": object()}]}, '$["a b"][0]["\\n\'\\""] is of type object'),
    ],
)
def test_what_cannot_be_stored_is_named_by_its_path(value: Any, says: str) -> None:
    with pytest.raises(InvalidEvent) as caught:
        text("data", value)
    assert str(caught.value).startswith(f"data {says}")
    assert str(caught.value).isprintable()


def test_a_value_nested_too_deep_is_refused() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(InvalidEvent, match="nested too deep"):
        text("data", value)
    while value:  # its own end would overflow the stack too
        value = value.pop()


def test_every_way_to_insert_takes_the_clients_json_default(dsn: str) -> None:
    with pgqpy.connect(dsn, json_default=money) as client:
        client.create_queue("orders")
        client.register_consumer("orders", "billing")
        paid: Any = Money(1)  # type checkers do not know what json_default takes
        client.insert_event("orders", "paid", paid, extra1={"at": Money(2)})
        client.insert_events("orders", [("paid", Money(3)), ("paid", [Money(Decimal(4))])])
        client.tick_queue("orders")
        batch = client.next_batch("orders", "billing")
        assert batch is not None
        found = [event.json() for event in client.get_batch_events(batch)]
        assert found == [{"amount": 1}, {"amount": 3}, [{"amount": "4"}]]
        with pytest.raises(InvalidEvent, match=r"event 1: data \$\.x is of type object") as caught:
            client.insert_events("orders", [("paid", "text"), ("paid", {"x": object()})])
        assert caught.value.index == 1


def test_limit_counts_octets_and_not_characters() -> None:
    assert text("data", "éé", limit=4) == "éé"
    with pytest.raises(InvalidEvent, match="5 octets, over the limit of 4"):
        text("data", "ééa", limit=4)


def test_limit_is_64_mib_unless_told() -> None:
    assert payload.PAYLOAD_LIMIT == 64 * 1024 * 1024
    with pytest.raises(InvalidEvent, match="over the limit of 67108864"):
        text("data", "x" * (64 * 1024 * 1024 + 1))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def test_data_that_is_no_json_names_its_event() -> None:
    event = Event(7, NOON, 9, None, "paid", None)
    assert event.json() is None
    with pytest.raises(ValueError, match=r"event 7 \(type 'paid'\) is not JSON"):
        event._replace(data="{oops").json()


@settings(max_examples=25)
@given(JSON)
def test_json_comes_back_unless_it_holds_what_postgresql_cannot(value: payload.Payload) -> None:
    whole = json.dumps(value)
    if isinstance(value, str):
        return
    try:
        stored = text("data", value)
    except InvalidEvent:
        assert "\\u0000" in whole or "\\ud" in whole
        return
    event = Event(1, datetime.now(timezone.utc), 1, None, "t", stored)
    assert event.json() == value


FIELD = st.none() | st.text()


@settings(max_examples=25)
@given(st.lists(FIELD, min_size=2, max_size=6))
def test_short_way_of_a_line_writes_what_the_long_way_writes(fields: list[str | None]) -> None:
    """A tuple of plain strings takes a shortcut, a list never does."""
    results = []
    for event in (tuple(fields), fields):
        try:
            results.append(line(event, limit=40))
        except InvalidEvent as exc:
            results.append(str(exc).encode())
    assert results[0] == results[1]
