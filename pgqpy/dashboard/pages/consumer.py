"""The pages of a consumer: its state, a move to another place, its dead events."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg.errors import InsufficientPrivilege

from pgqpy import calls, tick_ranges
from pgqpy.calls.filters import describe_filter
from pgqpy.dashboard.page import ROWS, Page, View
from pgqpy.errors import ConsumerNotFound, InvalidArgument
from pgqpy.records.sharing import STATES
from pgqpy.tick_ranges import measure
from pgqpy.watch.snapshot import COUNTED, Count, if_seen

if TYPE_CHECKING:
    from pgqpy import Client
    from pgqpy.calls.dead_events import Filters
    from pgqpy.tick_ranges import Cut, Distance


KEYS = 10  # those for which most events wait


def collect_consumer(view: View) -> dict[str, Any]:
    """Return the consumer, with what a shared one has in flight and who has claimed it."""
    queue, name = view.needed("queue"), view.needed("consumer")
    found = view.snapshot.consumer(queue, name)
    if found is None:
        raise ConsumerNotFound(queue=queue, consumer=name)
    client, keys, retries, length = view.client, [], [], None
    own = client.call(calls.admin.get_registrations(queue, name))
    if found.inflight and found.inflight.waiting and view.rights.payloads:
        keys = client.call(calls.sharing.get_waiting_keys(queue, name, KEYS))
    if found.retry_events:
        retries = client.call(calls.admin.get_retry_counts(queue, name, COUNTED))
    if (found.pending_events or 0) + (found.in_flight or 0) < COUNTED:
        length = if_seen(lambda: client.call(calls.sharing.queue_length(queue, name)))
    holders = view.snapshot.holders_of(queue, name)
    stalled = [each for each in view.snapshot.stalled if each[:2] == (queue, name)]
    return {
        "consumer": found,
        "charts": view.history(queue, name),
        "filter": describe_filter(None, own[0].filter) if own and own[0].filter else None,
        "length": length,
        "flight": found.inflight,
        "states": {name: getattr(found.inflight, name, None) for name in STATES},
        "holders": holders[:ROWS],
        "more_holders": max(0, len(holders) - ROWS),
        "retries": retries,
        "retries_counted": Count.up_to(sum(each.retry_events for each in retries), COUNTED),
        "keys": keys,
        "stalled": stalled[0] if stalled else None,
    }


CONSUMER = Page("/consumer", "consumer.html", collect_consumer, live=True)


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


def collect_seek(view: View) -> dict[str, Any]:
    """Return the consumer, where it is, and the move that the address asks about."""
    queue, consumer, client = view.needed("queue"), view.needed("consumer"), view.client
    position = tick_ranges.find_position(client, queue, consumer)
    info = next(iter(client.get_consumer_info(queue, consumer)), None)
    if position is None or info is None:
        raise ConsumerNotFound(queue=queue, consumer=consumer)
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
        "first": tick_ranges.find_first(client, queue),
        "last": tick_ranges.find_last(client, queue),
        "move": move,
    }


def _place(view: View, queue: str) -> Cut:
    """Return the tick that the form names; InvalidArgument if the queue has none there."""
    client, wanted = view.client, view.needed("to")
    if wanted == "beginning":
        return tick_ranges.find_first(client, queue)
    if wanted == "end":
        return tick_ranges.find_last(client, queue)
    if wanted == "tick":
        tick = view.number("tick")
        if tick is None:
            raise InvalidArgument("name the tick")
    elif wanted == "time":
        tick = client.call(calls.ticks.get_tick_at(queue, _time(view)))
    else:
        raise InvalidArgument(f"{wanted!r} is no place: {', '.join(PLACES)}")
    found = None if tick is None else tick_ranges.find_tick(client, queue, tick)
    if found is None:
        first = tick_ranges.find_first(client, queue)
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


SEEK = Page("/consumer/seek", "seek.html", collect_seek)


# Each query reads about 10,000 dead events at most; "search older" goes on where it ended. So a
# filter that matches nothing among a million costs no more than one that does.
GROUPS = 20  # rows of the counts


def collect_dead(view: View) -> dict[str, Any]:
    """Return the counts and one page of a bounded query."""
    queue, consumer = view.needed("queue"), view.needed("consumer")
    context: dict[str, Any] = {"queue": queue, "consumer": consumer, "rights": view.rights}
    if not view.rights.types:
        return {**context, "bounds": None}
    filters: Filters = {"type": view.params.get("type"), "error": view.params.get("error")}
    before, client = view.number("before"), view.client
    bounds = client.call(calls.dead_events.get_dead_event_bounds(queue, consumer, before=before))
    after = None if bounds.first_id is None else bounds.first_id - 1
    groups = client.call(
        calls.dead_events.get_dead_event_counts(
            queue, consumer, after=after, before=before, limit=GROUPS + 1
        )
    )
    events = []
    if view.rights.payloads:
        filters["limit"] = ROWS + 1
        events = client.get_dead_events(queue, consumer, after=after, before=before, **filters)
    older = None
    if len(events) > ROWS:
        older = events[ROWS - 1].ev_id
    elif bounds.has_more:
        older = bounds.first_id
    return {
        **context,
        "type": filters["type"],
        "error": filters["error"],
        "bounds": bounds,
        "groups": groups[:GROUPS],
        "more_groups": len(groups) > GROUPS,
        "events": events[:ROWS],
        "before": before,
        "older": older,
    }


DEAD = Page("/dead", "dead.html", collect_dead)
