"""The events of a queue, by tick, time, type and extras, as far as they are still there.

A look reads a bounded number of ticks; a filter that matches nothing says so, and where to go on.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from pgqpy import browse
from pgqpy.dashboard.page import Page, View
from pgqpy.errors import InvalidArgument

ROWS = 100
TICKS = 1000  # of one look
EXTRAS = ("extra1", "extra2", "extra3", "extra4")


def collect(view: View) -> dict[str, Any]:
    """Return the newest events, or the oldest from a tick or time on."""
    queue, after, client = view.needed("queue"), view.number("tick"), view.client
    since, type_ = _time(view), view.text("type")
    values = {name: value for name in EXTRAS if (value := view.text(name)) is not None}
    context = {"queue": queue, "type": type_, "values": values, "extras": EXTRAS, "rows": ROWS}
    context |= {"tick": after, "since": view.text("since"), "next": None, "expired": None}
    if not view.rights.payloads:
        return {**context, "events": None}
    extras = {name: [value] for name, value in values.items()}
    wanted = browse.Wanted((type_,) if type_ else (), extras, since)
    if after is None and since is None:
        events, _last = browse.newest(client, queue, ROWS, wanted, ticks=TICKS)
        return {**context, "events": events[::-1]}
    expired: list[datetime] = []
    if after is None:
        after = browse.find_start(client, queue, wanted, expired.append)
    events = browse.oldest(client, queue, ROWS, wanted, after, ticks=TICKS)
    last = browse.find_last(client, queue)
    further = after + TICKS if len(events) < ROWS and after + TICKS < last.tick_id else None
    return {**context, "events": events, "next": further, "expired": expired}


def _time(view: View) -> datetime | None:
    text = view.text("since")
    try:
        found = None if text is None else datetime.fromisoformat(text)
    except ValueError as exc:
        raise InvalidArgument("since is no time: write 2026-01-31T14:00") from exc
    return found.replace(tzinfo=timezone.utc) if found and not found.tzinfo else found


EVENTS = Page("/events", "events.html", collect)
