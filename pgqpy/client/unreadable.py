"""The search for an event that cannot be read: its query, and the error for a row. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgqpy.calls.payload import FIELDS
from pgqpy.errors import InvalidEvent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import LiteralString

    from pgqpy.calls.read import EventSet

TOO_LARGE = "54000"  # SQLSTATE: one message of the server holds a row, of at most 1 GB

# A client_encoding makes a text four times as long at most. So a smaller event is not the cause.
_LARGE = 2**28  # octets of all fields

# Events as octets, which are never converted. Only SQL_ASCII allows what is not text.
_OCTETS: LiteralString = """
    select ev_id, pg_catalog.convert_to(ev_type, 'SQL_ASCII'),
           pg_catalog.convert_to(ev_data, 'SQL_ASCII'),
           pg_catalog.convert_to(ev_extra1, 'SQL_ASCII'),
           pg_catalog.convert_to(ev_extra2, 'SQL_ASCII'),
           pg_catalog.convert_to(ev_extra3, 'SQL_ASCII'),
           pg_catalog.convert_to(ev_extra4, 'SQL_ASCII')
      from """

# octet_length reads no text: it knows the size of a compressed one.
_LARGEST: LiteralString = """
    select ev_id,
           (select pg_catalog.sum(octets)
              from (values (pg_catalog.octet_length(ev_type)),
                           (pg_catalog.octet_length(ev_data)),
                           (pg_catalog.octet_length(ev_extra1)),
                           (pg_catalog.octet_length(ev_extra2)),
                           (pg_catalog.octet_length(ev_extra3)),
                           (pg_catalog.octet_length(ev_extra4))) field (octets))
      from """


def octets(events: EventSet) -> LiteralString:
    """Select the events as octets; takes their parameters."""
    return _OCTETS + events.from_clause


def query(events: EventSet, sqlstate: str | None) -> LiteralString:
    """Select what `error` needs, after an error with this SQLSTATE; takes their parameters."""
    if sqlstate == TOO_LARGE:
        return _LARGEST + events.from_clause + " order by 2 desc nulls last limit 1"
    return octets(events)


def error(events: EventSet, sqlstate: str | None, row: Sequence[Any]) -> InvalidEvent | None:
    """Return the error for a row of `query` if its event cannot be read."""
    return (too_large if sqlstate == TOO_LARGE else not_text)(events, row)


def too_large(events: EventSet, row: Sequence[Any]) -> InvalidEvent | None:
    """Return the error for the id and the size of an event if the server may fail to send it."""
    event_id, size = row
    if (size or 0) < _LARGE:
        return None
    text = (
        f"event {event_id} of {events.name} is too large to be sent: its fields have {size} octets "
        "together: delete it from the queue's table, or read its fields one by one"
    )
    return InvalidEvent(text, **events.error_data, event_id=event_id, sqlstate=TOO_LARGE)


def not_text(events: EventSet, row: Sequence[Any]) -> InvalidEvent | None:
    """Return the error for a row of `octets` if it is not UTF-8."""
    event_id, *cells = row
    for field, cell in zip(FIELDS, cells, strict=True):
        try:
            (cell or b"").decode()
        except UnicodeDecodeError as exc:
            text = (
                f"event {event_id} of {events.name}: its {field} is not UTF-8 at byte "
                f"{exc.start}: correct it in the queue's table, or read the events as octets "
                "(convert_to)"
            )
            return InvalidEvent(text, **events.error_data, event_id=event_id, field=field)
    return None
