"""Filters of consumers and of readers of ticks. The server checks their conditions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pgqpy.calls import _check as check
from pgqpy.calls._call import Call, consumer_call
from pgqpy.errors import InvalidArgument

Types = Sequence[str]
Extras = Mapping[str, Sequence[str]]


def set_consumer_filter(
    queue: str, consumer: str, types: Types | None, extras: Extras | None
) -> Call[int]:
    """Decide which events a consumer takes: 1 changed, 0 it was so."""
    sql = "select pgq.set_consumer_filter(%s::text, %s::text, %s::jsonb)"
    wanted = filter_json(types, extras)
    return consumer_call("set_consumer_filter", sql, queue, consumer, wanted)


def filter_json(types: Types | None, extras: Extras | None) -> str | None:
    """Return a filter as the SQL functions take it; None for one that takes all events."""
    if extras is not None and not isinstance(extras, Mapping):
        msg = 'extras must be a mapping such as {"extra1": ["eu"]}'
        raise InvalidArgument(msg, parameter="extras")
    wanted = {name: _texts(name, values) for name, values in _conditions(types, extras).items()}
    return json.dumps(wanted, ensure_ascii=False) if wanted else None


def _texts(name: str, values: Any) -> list[str]:
    # A single str is a sequence of its letters.
    if isinstance(values, str) or not isinstance(values, Sequence):
        msg = f'{name} must be a list of texts, such as ["a", "b"]'
        raise InvalidArgument(msg, parameter=name)
    return sorted({check.name(name, value) for value in values})  # as the server keeps them


def _conditions(types: Types | None, extras: Extras | None) -> dict[str, Sequence[str]]:
    return {**({} if types is None else {"types": types}), **(extras or {})}


def describe_filter(types: Types | None, extras: Extras | None) -> str:
    """Return a filter in words, such as "types order.*, invoice; extra1 eu"."""
    wanted = _conditions(types, extras)
    words = (f"{name} {', '.join(values)}" for name, values in wanted.items())
    return "; ".join(words) or "all events"
