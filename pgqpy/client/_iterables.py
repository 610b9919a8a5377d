"""One loop over what may be an iterable or, for the async client, an async iterable."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from pgqpy.errors import InvalidEvent

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator

    Events = Iterable[object]
    AsyncEvents = Iterable[object] | AsyncIterable[object]


FEW = 32  # events written in one go; no more are held than these and a buffer


def few(events: Events, raised: list[Exception]) -> Iterator[list[object]]:
    """Iterate over FEW at a time, and note in `raised` what the iterable itself raises."""
    try:
        yield from _lists(many(events))
    except Exception as exc:
        raised.append(exc)
        raise


def many(events: Events) -> Iterator[object]:
    """Begin to iterate; a single event given by mistake for many is refused."""
    if isinstance(events, (str, bytes, dict)) or not hasattr(events, "__iter__"):
        msg = f"insert_events needs an iterable of events, not {type(events).__name__}"
        raise InvalidEvent(msg)
    return iter(events)


async def few_async(events: AsyncEvents, raised: list[Exception]) -> AsyncIterator[list[object]]:
    """Iterate over either kind, and note in `raised` what the iterable itself raises."""
    try:
        if hasattr(events, "__aiter__"):
            found: list[object] = []
            async for event in events:
                found.append(event)
                if len(found) == FEW:
                    yield found
                    found = []
            if found:
                yield found
        else:
            for found in _lists(many(events)):
                yield found
    except Exception as exc:
        raised.append(exc)
        raise


def _lists(events: Iterator[object]) -> Iterator[list[object]]:
    while found := list(islice(events, FEW)):
        yield found
