"""The change of a captured table, read from an event."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Literal, NamedTuple, cast, get_args

Op = Literal["insert", "update", "delete", "truncate", "snapshot"]
Types = Mapping[str, Mapping[str, Callable[[Any], Any]]]  # by table and column

OPS = get_args(Op)


class Change(NamedTuple):
    """A change of a captured table, from `Change.of(event)`.

    Values are JSON's: int, Decimal with all digits, str, bool, None, list, dict.

    Attributes:
        op: insert, update, delete, truncate; or snapshot: a row that was there before.
        table: schema.table, not quoted.
        key: the value of the key's column as text; of several columns a JSON array of texts, always
            written alike. None for truncate.
        row: the row by column; of a delete as it was; None for truncate.
        old: of an update the row before it.
    """

    op: Op
    table: str
    key: str | None
    row: dict[str, Any] | None
    old: dict[str, Any] | None = None

    @classmethod
    def of(cls, event: Any, types: Types | None = None) -> Change:
        """Read the change from an Event, or from a row with its columns, as Spark has.

        Args:
            event: the event.
            types: functions that convert values which are not null, by table and column:
                `{"public.orders": {"placed": datetime.fromisoformat}}`.

        Raises ValueError for an event that is no change.
        """
        prefix = "" if hasattr(event, "type") else "ev_"
        number, kind, data, key, old = (
            getattr(event, prefix + name) for name in ("id", "type", "data", "extra1", "extra2")
        )
        found = split_type(kind)
        if found is None:
            raise ValueError(
                f"event {number} is no change of a captured table: its type is {kind!r}"
            )
        table, op = found
        if op == "truncate":
            return cls(op, table, None, None)
        try:
            rows = [None if text is None else _DECODER.decode(text) for text in (data, old)]
        except ValueError:
            rows = [None, None]
        if key is None or not isinstance(rows[0], dict):
            raise ValueError(
                f"event {number} is no change of a captured table: type {kind!r} needs a key in "
                "extra1 and a row as JSON"
            )
        convert = {} if types is None else types.get(table, {})
        for row in filter(None, rows):
            row.update(
                {
                    column: function(row[column])
                    for column, function in convert.items()
                    if row.get(column) is not None
                }
            )
        return cls(op, table, key, *rows)


_DECODER = json.JSONDecoder(parse_float=Decimal)


def split_type(kind: str | None) -> tuple[str, Op] | None:
    """Return table and op of an event's type; None if it is no change of a table."""
    table, _, op = (kind or "").rpartition(".")
    return (table, cast("Op", op)) if op in OPS and "." in table else None
