"""The types of checks and of their findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from datetime import timedelta

    from typing_extensions import LiteralString

Row = dict[str, Any]
Level = Literal["ok", "skipped", "warn", "fail"]
Judge = Callable[[list[Row]], Iterator["Finding"]]


class Finding(NamedTuple):
    """The result of one check on one object."""

    level: Level
    check: str
    what: str
    remedy: str = ""


class Check(NamedTuple):
    """A query, and the pure function that turns its rows into findings."""

    name: str
    query: LiteralString
    judge: Judge


def rough(value: timedelta) -> str:
    """Format a duration roughly: ``42 s``, ``7 min``, ``3.5 h``, ``4 days``."""
    seconds = value.total_seconds()
    for size, unit in ((86400 * 2, 86400), (7200, 3600), (120, 60)):
        if seconds >= size:
            name = {86400: "days", 3600: "h", 60: "min"}[unit]
            return f"{seconds / unit:.1f} {name}".replace(".0 ", " ")
    return f"{seconds:.0f} s"
