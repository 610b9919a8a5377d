"""Events in short lists to the server, and from its rows, as fast as Python can."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.adapt import AdaptersMap, Transformer
from psycopg.pq import Format
from psycopg.types.array import ListBinaryDumper
from psycopg.types.datetime import TimestamptzBinaryLoader

from pgqpy.errors import InvalidEvent
from pgqpy.records import Event

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence

    from psycopg.abc import AdaptContext, Buffer
    from psycopg.adapt import PyFormat
    from psycopg.types.array import BaseListDumper

    from pgqpy.calls import Call

    Events = Iterable[object]
    AsyncEvents = Iterable[object] | AsyncIterable[object]
    AnyCursor = psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]


LIST_SIZE = 32  # events; memory holds one list and the buffer of COPY


def in_lists(events: Events, raised: list[Exception]) -> Iterator[list[object]]:
    """Yield lists of LIST_SIZE events; append to `raised` what the iterable itself raises."""
    try:
        yield from _lists(_checked(events))
    except Exception as exc:
        raised.append(exc)
        raise


async def in_lists_async(
    events: AsyncEvents, raised: list[Exception]
) -> AsyncIterator[list[object]]:
    """Do the same for an iterable or an async iterable."""
    try:
        if hasattr(events, "__aiter__"):
            found: list[object] = []
            async for event in events:
                found.append(event)
                if len(found) == LIST_SIZE:
                    yield found
                    found = []
            if found:
                yield found
        else:
            for found in _lists(_checked(events)):
                yield found
    except Exception as exc:
        raised.append(exc)
        raise


def _lists(events: Iterator[object]) -> Iterator[list[object]]:
    while found := list(islice(events, LIST_SIZE)):
        yield found


def _checked(events: Events) -> Iterator[object]:
    """Return the iterator; refuse a single event where an iterable of events is needed."""
    if isinstance(events, (str, bytes, dict)) or not hasattr(events, "__iter__"):
        msg = f"insert_events needs an iterable of events, not {type(events).__name__}"
        raise InvalidEvent(msg)
    return iter(events)


T = TypeVar("T")

# Half the cost of Event._make.
to_event: Callable[[Sequence[Any]], Event] = partial(tuple.__new__, Event)


def event_row(_cursor: object) -> Callable[[Sequence[Any]], Event]:
    """Make rows events: a row factory of psycopg."""
    return to_event


_TIMESTAMPTZ = psycopg.adapters.types["timestamptz"].oid
# Of psycopg's own, whatever the application registered for itself, the one in C if there is one.
_own = AdaptersMap(types=psycopg.adapters.types)
_own.register_loader(_TIMESTAMPTZ, TimestamptzBinaryLoader)
_load_time = _own.get_loader(_TIMESTAMPTZ, Format.BINARY) or TimestamptzBinaryLoader


class UtcLoader(TimestamptzBinaryLoader):
    """Loads times in UTC: in the session's time zone they cost as much as the rest of the row."""

    def __new__(cls, oid: int, _context: AdaptContext | None = None) -> Any:
        """Return psycopg's loader without the context, where it would learn the session's zone.

        The one in C cannot be subclassed, and one in Python would be slower than any zone.
        """
        return _load_time(oid)


class _BoundedLoader(TimestamptzBinaryLoader):
    """Loads times that Python lacks as its first or last one. Slow: for rows that have some."""

    _earliest = datetime.min.replace(tzinfo=timezone.utc)
    _latest = datetime.max.replace(tzinfo=timezone.utc)

    def load(self, data: Buffer) -> datetime:
        """Return the time, or the nearest one there is."""
        try:
            return UtcLoader(self.oid).load(data)  # type: ignore[no-any-return]  # psycopg: compiled
        except psycopg.DataError:
            before_2000 = bytes(data)[0] & 0x80  # the sign of microseconds since then
            return self._earliest if before_2000 else self._latest


def bounded(cursor: AnyCursor, make: Callable[[Sequence[Any]], T]) -> list[T]:
    """Load the rows that a cursor holds once more, after a time that Python lacks.

    A producer may choose ev_time, 'infinity' too. One such event would stop every consumer.
    """
    if cursor.pgresult is None:
        return []
    cursor.adapters.register_loader("timestamptz", _BoundedLoader)
    transformer = Transformer(cursor)
    transformer.set_pgresult(cursor.pgresult)
    return transformer.load_rows(0, cursor.pgresult.ntuples, make)


def failed_call(wanted: Sequence[Call[Any]], cursors: Sequence[AnyCursor]) -> Call[Any]:
    """Return the call that failed: the first without a result. A commit fails after all of them."""
    pairs = zip(wanted, cursors, strict=True)
    return next((call for call, cursor in pairs if cursor.pgresult is None), wanted[-1])


_text = psycopg.adapters.types["text"]


class NullSafeListDumper(ListBinaryDumper):
    """Dumps every list in binary. psycopg's own sends empty lists, and lists of nulls, as text."""

    def upgrade(self, obj: list[Any], format: PyFormat) -> BaseListDumper:
        """Return the dumper for the type of the elements; text if there is none."""
        dumper = super().upgrade(obj, format)
        if dumper.format != Format.BINARY:
            dumper = type(self)(self.cls, self._tx)
            dumper.oid = _text.array_oid
        return dumper
