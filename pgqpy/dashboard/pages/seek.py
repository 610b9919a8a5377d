"""Moving a consumer: the places it can go to, and what a move would skip or repeat."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg.errors import InsufficientPrivilege

from pgqpy import browse, calls, tick_ranges
from pgqpy.dashboard.page import Page, View
from pgqpy.errors import ConsumerNotFound, InvalidArgument
from pgqpy.tick_distance import measure

if TYPE_CHECKING:
    from pgqpy import Client
    from pgqpy.browse import Cut
    from pgqpy.tick_distance import Distance

PLACES = {
    "beginning": "the beginning: all that the queue keeps comes again",
    "end": "the end: nothing that is there now comes",
    "time": "a time (UTC)",
    "tick": "a tick",
}


class Move(NamedTuple):
    """What a move would do."""

    place: Cut
    back: bool  # events come again
    distance: Distance | None  # none: no event is skipped or comes again, if it is not unknown
    unknown: bool  # ids do not tell the number of events, and this session may not count them


def collect(view: View) -> dict[str, Any]:
    """Return the consumer, where it is, and the move that the address asks about."""
    queue, consumer, client = view.needed("queue"), view.needed("consumer"), view.client
    position = tick_ranges.find_position(client, queue, consumer)
    info = next(iter(client.get_consumer_info(queue, consumer)), None)
    if position is None or info is None:
        raise ConsumerNotFound(
            ConsumerNotFound.words.format(queue=queue, consumer=consumer),
            queue=queue,
            consumer=consumer,
        )
    move = None
    if view.text("to") is not None and position.pins is None:
        move = _move(client, queue, info.last_tick, _place(view, queue))
    return {
        "queue": queue,
        "consumer": consumer,
        "info": info,
        "state": view.snapshot.consumer(queue, consumer),
        "reads_ticks": position.pins is not None,
        "places": PLACES,
        "first": browse.find_first(client, queue),
        "last": browse.find_last(client, queue),
        "move": move,
    }


def _place(view: View, queue: str) -> Cut:
    """Return the tick that the form names; InvalidArgument if the queue has none there."""
    client, wanted = view.client, view.needed("to")
    if wanted == "beginning":
        return browse.find_first(client, queue)
    if wanted == "end":
        return browse.find_last(client, queue)
    if wanted == "tick":
        tick = view.number("tick")
        if tick is None:
            raise InvalidArgument("name the tick")
    elif wanted == "time":
        tick = client.call(calls.ticks.get_tick_at(queue, _time(view)))
    else:
        raise InvalidArgument(f"{wanted!r} is no place: {', '.join(PLACES)}")
    found = None if tick is None else browse.find_tick(client, queue, tick)
    if found is None:
        first = browse.find_first(client, queue)
        raise InvalidArgument(
            f"the queue keeps events after tick {first.tick_id} of {first.time:%Y-%m-%d %H:%M:%S} "
            "UTC: choose the beginning, or a later place"
        )
    if found.tick_id != tick:
        raise InvalidArgument(f"there is no tick {tick}; the last one before it is {found.tick_id}")
    return found


def _time(view: View) -> datetime:
    with suppress(ValueError):
        found = datetime.fromisoformat(view.text("time") or "")
        return found if found.tzinfo else found.replace(tzinfo=timezone.utc)
    raise InvalidArgument("name the time: write 2026-01-31T14:00")


def _move(client: Client, queue: str, position: int | None, place: Cut) -> Move:
    back = position is not None and place.tick_id < position
    ends = (place.tick_id, position) if back else (position, place.tick_id)
    try:
        return Move(place, back, measure(client, queue, ends[0], ends[1] or 0), unknown=False)
    except InsufficientPrivilege:  # payloads are hidden: events cannot be counted, ids can
        return Move(place, back, None, unknown=True)


SEEK = Page("/consumer/seek", "seek.html", collect)
