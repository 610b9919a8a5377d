"""The dead events of a consumer: counted by type and error, and one page of them.

Each look is about 10,000 dead events at most; "search older" goes on where it ended. So a filter
that matches nothing among a million costs no more than one that does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgqpy import calls
from pgqpy.dashboard.page import ROWS, Page, View

if TYPE_CHECKING:
    from pgqpy.calls.dead_events import Filters

GROUPS = 20  # rows of the counts


def collect(view: View) -> dict[str, Any]:
    """Return the counts and one page of a bounded look."""
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


DEAD = Page("/dead", "dead.html", collect)
