"""What Spark keeps in its checkpoint for us: a queue's identity and a tick. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from pgqpy.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_BIGINT = 2**63 - 1


class Offset(NamedTuple):
    """A position in a queue, and the consumer whose subscription keeps what comes after it.

    The queue's id tells a queue of the same name that came later.
    """

    consumer: str
    queue_id: int
    tick: int

    def to_spark(self) -> dict[str, int | str]:
        """Return what Spark writes into its log."""
        return self._asdict()


def parse_offset(written: Mapping[str, Any]) -> Offset:
    """Read what Spark gives back.

    Raises:
        InvalidArgument: that was not written by this source.
    """
    try:
        return Offset(str(written["consumer"]), int(written["queue_id"]), int(written["tick"]))
    except (KeyError, TypeError, ValueError):
        raise InvalidArgument(
            f"the checkpoint holds {dict(written)!r}, which is no offset of a queue: "
            "another source wrote it, so give this query a checkpointLocation of its own",
            parameter="checkpointLocation",
        ) from None


def parse_tick(text: str) -> int | None:
    """Read `{"tick": 21}`; None if it is something else. A whole offset is fine too."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if not isinstance(value, dict) or not {"tick"} <= set(value) <= set(Offset._fields):
        return None
    tick = value["tick"]
    whole = isinstance(tick, int) and not isinstance(tick, bool)
    return tick if whole and 0 <= tick <= MAX_BIGINT else None
