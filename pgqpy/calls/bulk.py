"""Events as lines of COPY text, and as arrays for SQL functions that return their ids."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from psycopg import sql

from pgqpy.calls import payload
from pgqpy.calls.payload import FIELDS
from pgqpy.errors import InvalidEvent
from pgqpy.records import Event

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pgqpy.calls.payload import Default

REQUIRED = FIELDS[:2]
BUFFER = 64 * 1024  # octets gathered before they are handed to libpq

# COPY reads 'now' as the transaction's now(), which is what insert_event stores.
_NOW = b"now"
_NULL = rb"\N"
_START = _NOW + b"\t"
_ENDS = [(b"\t" + _NULL) * (len(FIELDS) - fields) + b"\n" for fields in range(len(FIELDS) + 1)]
_UNUSUAL = "\t\n\r\0\\"  # what COPY needs escapes for, or PostgreSQL cannot hold


def copy_into(table: str) -> sql.Composed:
    """Return the COPY statement for a table that current_event_table named."""
    return sql.SQL(
        "copy {} (ev_time, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4) "
        "from stdin with (encoding 'UTF8')"
    ).format(sql.SQL(table))


def lines(
    events: Sequence[object], index: int, limit: int, default: Default | None = None
) -> Iterator[bytes]:
    """Write events as lines of COPY text; `index` is that of the first one in the load.

    Raises InvalidEvent, with the event's index, when it comes to one that cannot be stored.
    """
    plain = _plain_lines(events, limit)
    if plain is not None:
        yield plain
        return
    for number, event in enumerate(events, index):
        try:
            yield line(event, limit, default)
        except InvalidEvent as exc:
            raise InvalidEvent(f"event {number}: {exc}", field=exc.field, index=number) from exc


def line(
    event: object, limit: int = payload.PAYLOAD_LIMIT, default: Default | None = None
) -> bytes:
    """Write one event, in any form that insert_events takes, as a line of COPY text.

    Raises InvalidEvent: it is no event, or a field has more than `limit` octets or cannot be
    stored. `default` converts what has no form in JSON otherwise.
    """
    cells = [_cell(octets) for octets in payload.encode(fields_of(event), limit, default)]
    return _START + b"\t".join(cells) + _ENDS[len(cells)]


def _plain_lines(events: Sequence[Any], limit: int) -> bytes | None:
    """Write the usual events, tuples of strings that need no escapes, at a tenth of the cost.

    None: whatever is unusual about one of them, `line` finds and names.
    """
    if {*map(type, events)} != {tuple}:
        return None
    fields, *more = {*map(len, events)}
    if more or not len(REQUIRED) <= fields <= len(FIELDS):
        return None
    try:
        text = "".join(chain.from_iterable(events))
        octets = "\n".join(map("\t".join, events)).encode()
    except (TypeError, UnicodeEncodeError):
        return None
    if len(octets) > limit or any(map(text.__contains__, _UNUSUAL)):
        return None
    end = _ENDS[fields]
    return _START + octets.replace(b"\n", end + _START) + end


def _cell(octets: bytes | None) -> bytes:
    if octets is None:
        return _NULL
    if b"\\" in octets:
        octets = octets.replace(b"\\", rb"\\")
    return octets.replace(b"\t", rb"\t").replace(b"\n", rb"\n").replace(b"\r", rb"\r")


def fields_of(event: object) -> tuple[Any, ...]:
    """Return an event's fields, from any form that insert_events takes; raises InvalidEvent."""
    if isinstance(event, Event):
        return event[4:]
    if isinstance(event, (tuple, list)) and not hasattr(event, "_fields"):
        return _from_sequence(event)
    if isinstance(event, Mapping):
        return _from_mapping(event)
    if hasattr(event, "type") and hasattr(event, "data"):
        return tuple(getattr(event, field, None) for field in FIELDS)
    msg = (
        f"{type(event).__name__} is not an event: give (type, data), a dict with type and data, "
        "or an object with these attributes"
    )
    raise InvalidEvent(msg)


def _from_mapping(event: Mapping[Any, Any]) -> tuple[Any, ...]:
    unknown = [key for key in event if key not in FIELDS]
    if unknown:
        msg = f"{unknown[0]!r} is not a field of an event: they are {', '.join(FIELDS)}"
        raise InvalidEvent(msg, field=str(unknown[0]))
    for field in REQUIRED:
        if field not in event:
            msg = f"the event has no {field}: give type and data, None if there is none"
            raise InvalidEvent(msg, field=field)
    return tuple(event.get(field) for field in FIELDS)


def _from_sequence(event: tuple[Any, ...] | list[Any]) -> tuple[Any, ...]:
    if not len(REQUIRED) <= len(event) <= len(FIELDS):
        msg = f"an event has 2 to 6 fields ({', '.join(FIELDS)}), not {len(event)}"
        raise InvalidEvent(msg)
    return tuple(event)


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
            octets = payload.encode(fields_of(event), limit, default)
        except InvalidEvent as exc:
            raise InvalidEvent(f"event {index}: {exc}", field=exc.field, index=index) from exc
        octets += [None] * (len(self.columns) - len(octets))
        for column, each in zip(self.columns, octets, strict=True):
            column.append(None if each is None else each.decode())
            self._octets += len(each or b"")


class Load:
    """Any number of events, in pieces.

    Attributes:
        pieces: the pieces so far, in order.
    """

    def __init__(self, limit: int, default: Default | None = None) -> None:
        """Begin with no event."""
        self.pieces: list[Piece] = []
        self._limit, self._default = limit, default

    def add(self, events: Iterable[object]) -> None:
        """Add events, in any form that insert_events takes. Raises InvalidEvent, as a piece."""
        for event in events:
            last = self.pieces[-1] if self.pieces else Piece(0)
            if last.full or not self.pieces:
                self.pieces.append(Piece(last.first + len(last)))
            self.pieces[-1].add(event, self._limit, self._default)
