"""What may be stored as an event, and what each refusal says."""

from __future__ import annotations

import enum
import json
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgqpy import InvalidEvent
from pgqpy.calls import payload
from pgqpy.calls.bulk import line
from pgqpy.records import Event


class Colour(str, enum.Enum):
    RED = "red"


LOOP: list[object] = []
LOOP.append(LOOP)


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
    assert payload.text("data", given) == stored


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
        (datetime(2026, 1, 1, tzinfo=timezone.utc), "JSON"),
        ({(1, 2): 3}, "JSON"),
        (LOOP, "JSON"),
    ],
)
def test_what_cannot_be_stored_is_refused_by_field(given: payload.Payload, says: str) -> None:
    with pytest.raises(InvalidEvent) as caught:
        payload.text("extra2", given)
    assert caught.value.field == "extra2"
    assert str(caught.value).startswith("extra2 ")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_limit_counts_octets_and_not_characters() -> None:
    assert payload.text("data", "éé", limit=4) == "éé"
    with pytest.raises(InvalidEvent, match="5 octets, over the limit of 4"):
        payload.text("data", "ééa", limit=4)


def test_limit_is_64_mib_unless_told() -> None:
    assert payload.PAYLOAD_LIMIT == 64 * 1024 * 1024
    with pytest.raises(InvalidEvent, match="over the limit of 67108864"):
        payload.text("data", "x" * (64 * 1024 * 1024 + 1))


@pytest.mark.parametrize("given", [7, b"paid", {"a": 1}])
def test_type_is_text_only(given: Any) -> None:
    with pytest.raises(InvalidEvent) as caught:
        payload.columns(given, None, limit=payload.PAYLOAD_LIMIT)
    assert caught.value.field == "type"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(JSON)
def test_json_comes_back_unless_it_holds_what_postgresql_cannot(value: payload.Payload) -> None:
    whole = json.dumps(value)
    if isinstance(value, str):
        return
    try:
        stored = payload.text("data", value)
    except InvalidEvent:
        assert "\\u0000" in whole or "\\ud" in whole
        return
    event = Event(1, datetime.now(timezone.utc), 1, None, "t", stored)
    assert event.json() == value


FIELD = st.none() | st.text()


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
