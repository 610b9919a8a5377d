"""A consumer: its position, its workers, its retried events, its parked keys."""

from __future__ import annotations

from typing import Any

from pgqpy import calls
from pgqpy.calls.filters import describe_filter
from pgqpy.dashboard.page import ROWS, Page, View
from pgqpy.errors import ConsumerNotFound
from pgqpy.watch.lag import shown_lag
from pgqpy.watch.snapshot import COUNTED, Count


def collect(view: View) -> dict[str, Any]:
    """Return the consumer with its workers, and its parked keys as far as this role may see."""
    queue, name = view.needed("queue"), view.needed("consumer")
    found = view.snapshot.consumer(queue, name)
    if found is None:
        raise ConsumerNotFound(
            ConsumerNotFound.words.format(queue=queue, consumer=name), queue=queue, consumer=name
        )
    rows = view.snapshot.workers_of(queue, name)
    own = next((each for each in rows if each.worker is None), None)
    workers = [
        each._replace(lag=shown_lag(each.lag, found.pending_events))
        for each in rows
        if each.worker is not None
    ]
    keys = []
    if view.rights.payloads and found.parked_events:
        keys = view.client.call(calls.parked.get_parked(queue, name, limit=ROWS))
    retries = (
        view.client.call(calls.admin.get_retry_counts(queue, name, COUNTED))
        if found.retry_events
        else []
    )
    stalled = [each for each in view.snapshot.stalled if each[:2] == (queue, name)]
    return {
        "consumer": found,
        "charts": view.history(queue, name),
        "own": own,
        "filter": describe_filter(None, own.filter) if own and own.filter else None,
        "workers": workers[:ROWS],
        "more_workers": max(0, len(workers) - ROWS),
        "retries": retries,
        "retries_counted": Count.up_to(sum(each.retry_events for each in retries), COUNTED),
        "keys": keys,
        "stalled": stalled[0] if stalled else None,
    }


CONSUMER = Page("/consumer", "consumer.html", collect, live=True)
