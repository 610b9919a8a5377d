"""Records read themselves."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from pgqpy import Event


def event(data: str | None) -> Event:
    return Event(7, datetime.now(timezone.utc), 9, None, "paid", data)


def test_json_parses_the_data() -> None:
    assert event('{"a": [1, null]}').json() == {"a": [1, None]}


def test_no_data_is_json_none_as_it_was_inserted() -> None:
    assert event(None).json() is None


def test_data_that_is_not_json_names_the_event() -> None:
    with pytest.raises(ValueError, match=r"event 7 \(type 'paid'\) is not JSON"):
        event("{oops").json()
