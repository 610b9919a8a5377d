"""The offsets that Spark keeps in its checkpoint, and the limits between two. Without I/O."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from pgqpy.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_BIGINT = 2**63 - 1


class Offset(NamedTuple):
    """A tick of a queue, and the consumer whose subscription keeps the events after it.

    The queue's id reveals that the queue was dropped and created again under the same name. The
    tick's time reveals that the server lost the tick and gave its number again: after a failover to
    a standby that lagged, or a restore. Spark writes `_asdict()` to the checkpoint.
    """

    consumer: str
    queue_id: int
    tick: int
    time: str  # in UTC, as tick_ranges.find_tick_times returns it


def parse_offset(written: Mapping[str, Any]) -> Offset:
    """Return an offset from the checkpoint.

    Raises:
        InvalidArgument: another source wrote it.
    """
    try:
        return Offset(
            str(written["consumer"]),
            int(written["queue_id"]),
            int(written["tick"]),
            str(written["time"]),
        )
    except (KeyError, TypeError, ValueError):
        raise InvalidArgument(
            f"the checkpoint holds {dict(written)!r}, which is not an offset of a queue: "
            "another source wrote it, so give this query a checkpointLocation of its own",
            parameter="checkpointLocation",
        ) from None


def parse_tick(text: str) -> int | None:
    """Return the tick of `{"tick": 21}` or of a whole offset; None for any other text."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if not isinstance(value, dict) or not {"tick"} <= set(value) <= set(Offset._fields):
        return None
    tick = value["tick"]
    whole = isinstance(tick, int) and not isinstance(tick, bool)
    return tick if whole and 0 <= tick <= MAX_BIGINT else None
