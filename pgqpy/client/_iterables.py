"""Iteration over events in short lists; the async client also takes async iterables."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from pgqpy.errors import InvalidEvent

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator

    Events = Iterable[object]
    AsyncEvents = Iterable[object] | AsyncIterable[object]


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
