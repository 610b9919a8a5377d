"""Events as arrays, one for each field: for SQL functions that insert many and return their ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.calls import bulk, payload
from pgqpy.errors import InvalidEvent

if TYPE_CHECKING:
    from pgqpy.calls.json_values import Default

MOST_EVENTS = 1000  # of a piece
MOST_OCTETS = 1024 * 1024  # of a piece, but for its last event


class Piece:
    """Events gathered for one call.

    Attributes:
        columns: a list of texts for each field.
        first: the place of the first event in the whole load, from 0.
    """

    def __init__(self, first: int) -> None:
        """Begin with no event."""
        self.columns: tuple[list[str | None], ...] = tuple([] for _ in payload.FIELDS)
        self.first = first
        self._octets = 0

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.columns[0])

    @property
    def full(self) -> bool:
        """Whether the piece is to be sent before more is added."""
        return len(self) >= MOST_EVENTS or self._octets >= MOST_OCTETS

    def add(self, event: object, limit: int, default: Default | None = None) -> None:
        """Add an event, in any form that insert_events takes.

        Raises InvalidEvent, with the event's index in the load.
        """
        index = self.first + len(self)
        try:
            octets = payload.encode(bulk.fields_of(event), limit, default)
        except InvalidEvent as exc:
            raise InvalidEvent(f"event {index}: {exc}", field=exc.field, index=index) from exc
        octets += [None] * (len(self.columns) - len(octets))
        for column, each in zip(self.columns, octets, strict=True):
            column.append(None if each is None else each.decode())
            self._octets += len(each or b"")
