"""One loop over what may be an iterable or, for the async client, an async iterable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.errors import InvalidEvent

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator

    Events = Iterable[object]
    AsyncEvents = Iterable[object] | AsyncIterable[object]


def each(events: Events, raised: list[Exception]) -> Iterator[object]:
    """Iterate, and note in `raised` what the iterable itself raises."""
    try:
        yield from many(events)
    except Exception as exc:
        raised.append(exc)
        raise


def many(events: Events) -> Iterator[object]:
    """Begin to iterate; a single event given by mistake for many is refused."""
    if isinstance(events, (str, bytes, dict)) or not hasattr(events, "__iter__"):
        msg = f"insert_events needs an iterable of events, not {type(events).__name__}"
        raise InvalidEvent(msg)
    return iter(events)


async def each_async(events: AsyncEvents, raised: list[Exception]) -> AsyncIterator[object]:
    """Iterate over either kind, and note in `raised` what the iterable itself raises."""
    try:
        if hasattr(events, "__aiter__"):
            async for event in events:
                yield event
        else:
            for event in many(events):
                yield event
    except Exception as exc:
        raised.append(exc)
        raise
