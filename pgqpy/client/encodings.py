"""Checks of text against encodings, and errors that name the field. No I/O."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Any, NamedTuple

from pgqpy.calls.payload import FIELDS
from pgqpy.errors import ConnectionFailed, InvalidArgument, InvalidEvent, PgqError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import psycopg

    from pgqpy.calls import Call
    from pgqpy.calls.read import EventSet

    Connection = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]

SET_UTF8 = "set client_encoding to 'UTF8'"
ESCAPE = "send it escaped (json.dumps writes ASCII) or as base64, or use a database in UTF8"


class MissingCharacter(NamedTuple):
    """A character that an encoding lacks, and the field or argument that contains it."""

    name: str
    character: str

    def message(self, encoding: str, remedy: str) -> str:
        """Return the sentence for an error."""
        return f"{self.name} contains {self.character}, which {encoding} lacks: {remedy}"


def parameter(connection: Connection, name: str) -> str:
    """Return client_encoding or server_encoding as the server reported it; asks nothing."""
    return (connection.pgconn.parameter_status(name.encode()) or b"").decode()


def wrong_encoding(**data: object) -> ConnectionFailed:
    """Return the error for a client_encoding in which a result cannot be sent."""
    text = f"the connection's client_encoding cannot carry the text of events: {SET_UTF8}"
    return ConnectionFailed(text, sqlstate="22P05", **data)


def check(connection: Connection) -> None:
    """Raise ConnectionFailed where psycopg would return bytes instead of str."""
    if connection.pgconn.parameter_status(b"client_encoding") == b"SQL_ASCII":
        raise wrong_encoding()


def holds_everything(connection: Connection) -> bool:
    """Say whether the database takes every character."""
    return parameter(connection, "server_encoding") in ("UTF8", "SQL_ASCII")


def unstorable(call: Call[Any] | EventSet, error: Exception, connection: Connection) -> PgqError:
    """Return the error for a call with a text that cannot be sent or stored."""
    if isinstance(error, UnicodeEncodeError):
        encoding, remedy = parameter(connection, "client_encoding"), SET_UTF8
        whose = f"this connection's client_encoding {encoding}"
    else:
        encoding, remedy = parameter(connection, "server_encoding"), ESCAPE
        whose = f"the encoding {encoding} of this database"
    for index, fields in _events_of(call):
        if found := _first(fields, encoding):
            text = found.message(whose, remedy)
            text = text if index is None else f"event {index}: {text}"
            return InvalidEvent(text, **{**call.error_data, "field": found.name, "index": index})
    found = _first(call.error_data, encoding) or MissingCharacter("an argument", "a character")
    data = {**call.error_data, "parameter": found.name}
    return InvalidArgument(found.message(whose, remedy), **data)


def _events_of(call: Call[Any] | EventSet) -> Iterator[tuple[int | None, dict[str, object]]]:
    """Yield the events that a call inserts, with their places in a load."""
    columns = call.params[-len(FIELDS) :]
    if call.function.startswith("insert_events"):
        first: Any = call.error_data["index"]
        for index, fields in enumerate(zip(*columns, strict=True), first):
            yield index, dict(zip(FIELDS, fields, strict=True))
    elif call.function.startswith("insert_event"):
        yield None, dict(zip(FIELDS, columns, strict=True))


def not_carried(call: Call[Any] | EventSet, error: Exception, connection: Connection) -> PgqError:
    """Return the error for arguments, or for texts of the result, that cannot be transferred.

    UTF-8 carries every result. With another client_encoding, an argument that it lacks tells
    which of the two it is.
    """
    server = parameter(connection, "server_encoding")
    texts = {str(index): each for index, each in enumerate(call.params)}
    is_utf8 = parameter(connection, "client_encoding") == "UTF8"
    if isinstance(error, UnicodeEncodeError) or is_utf8 or _first(texts, server):
        return unstorable(call, error, connection)
    return wrong_encoding(**call.error_data)


class LoadCheck:
    """Finds the first event of a load that the database cannot store: COPY names only its line.

    `needed` is False where the database takes every character.
    """

    def __init__(self, connection: Connection) -> None:
        """Begin with no line."""
        self._encoding = parameter(connection, "server_encoding")
        self._lines = 0
        self._found: tuple[int, MissingCharacter] | None = None  # an event's index, from 0
        self.needed = not holds_everything(connection)

    def check(self, lines: bytes) -> None:
        """Check the next lines of COPY."""
        text = lines.decode()
        if self._found is None and _missing_character(text, self._encoding) is not None:
            self._found = self._find(text)
        self._lines += text.count("\n")

    def error(self, queue: str) -> InvalidEvent:
        """Return the error for the load."""
        whose = f"the encoding {self._encoding} of this database"
        if self._found is None:
            unknown = MissingCharacter("one of the events", "a character")
            return InvalidEvent(unknown.message(whose, ESCAPE), queue=queue)
        index, found = self._found
        text = f"event {index}: {found.message(whose, ESCAPE)}"
        return InvalidEvent(text, queue=queue, field=found.name, index=index)

    def _find(self, text: str) -> tuple[int, MissingCharacter] | None:
        for index, line in enumerate(text.split("\n"), self._lines):
            cells = zip(("time", *FIELDS), line.split("\t"), strict=False)
            if found := _first(dict(cells), self._encoding):
                return index, found
        return None


def _first(texts: Mapping[str, object], encoding: str) -> MissingCharacter | None:
    for name, text in texts.items():
        character = _missing_character(text, encoding) if isinstance(text, str) else None
        if character is not None:
            return MissingCharacter(name, character)
    return None


def _missing_character(text: str, encoding: str) -> str | None:
    """Name the first character that Python's codec of this encoding lacks, if there is one.

    It may differ from PostgreSQL's in a few characters: so it explains an error, and causes none.
    """
    try:
        text.encode(_codec(encoding))
    except UnicodeEncodeError as exc:
        character = text[exc.start]
        return f"{character!r} (U+{ord(character):04X})"
    return None


def _codec(encoding: str) -> str:
    for name in (encoding, encoding.replace("WIN", "cp"), encoding.replace("KOI8", "koi8_")):
        try:
            return codecs.lookup(name).name
        except LookupError:
            continue
    return "utf-8"
