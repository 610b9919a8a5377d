"""The events that a queue still has, by tick, time, type and extras; and new ones as they come.

A look reads a bounded number of ticks; a filter that matches nothing says so, and where to go on.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from pgqpy import browse
from pgqpy.dashboard.page import Page, View
from pgqpy.dashboard.tails import EXTRAS, ROWS, TICKS, Filter, shown
from pgqpy.errors import InvalidArgument


def collect(view: View) -> dict[str, Any]:
    """Return the newest events, or the oldest from a tick or time on."""
    chosen, after, client = _filter(view), view.number("tick"), view.client
    queue, since, context = chosen.queue, _time(view), _context(chosen)
    context |= {"tick": after, "since": view.text("since")}
    if not view.rights.payloads:
        return context
    wanted = chosen.wanted(since)
    if after is None and since is None:
        events, _last = browse.newest(client, queue, ROWS, wanted, ticks=TICKS)
        return {**context, "events": [shown(each) for each in reversed(events)]}
    expired: list[datetime] = []
    if after is None:
        after = browse.find_start(client, queue, wanted, expired.append)
    events = browse.oldest(client, queue, ROWS, wanted, after, ticks=TICKS)
    last = browse.find_last(client, queue)
    further = after + TICKS if len(events) < ROWS and after + TICKS < last.tick_id else None
    context |= {"next": further, "expired": expired}
    return {**context, "events": [shown(each) for each in events]}


def follow(view: View) -> dict[str, Any]:
    """Return the newest events. Each snapshot makes the page anew, with those that came."""
    chosen = _filter(view)
    context = {**_context(chosen), "follows": True}
    if view.rights.payloads:
        queue = view.snapshot.queue(chosen.queue)
        last_tick = queue.last_tick if queue else None
        context["events"] = view.tails.newest(view.client, chosen, last_tick)
    return context


def _filter(view: View) -> Filter:
    extras = ((name, view.text(name)) for name in EXTRAS)
    known = tuple((name, value) for name, value in extras if value is not None)
    return Filter(view.needed("queue"), view.text("type"), known)


def _context(chosen: Filter) -> dict[str, Any]:
    return {
        "queue": chosen.queue,
        "type": chosen.type,
        "values": dict(chosen.extras),
        "extras": EXTRAS,
        "rows": ROWS,
        "tick": None,
        "since": None,
        "follows": False,
        "events": None,
        "next": None,
        "expired": None,
    }


def _time(view: View) -> datetime | None:
    text = view.text("since")
    try:
        found = None if text is None else datetime.fromisoformat(text)
    except ValueError as exc:
        raise InvalidArgument("since is no time: write 2026-01-31T14:00") from exc
    return found.replace(tzinfo=timezone.utc) if found and not found.tzinfo else found


EVENTS = Page("/events", "events.html", collect)
FOLLOW = Page("/events/follow", "events.html", follow, live=True)
