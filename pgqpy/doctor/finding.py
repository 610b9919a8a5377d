"""The result of a check."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Row = dict[str, Any]  # of a check's query
Level = Literal["ok", "skipped", "warn", "fail"]


class Finding(NamedTuple):
    """The result of one check on one object."""

    level: Level
    check: str
    what: str
    remedy: str = ""
