"""Cancel events of the queue `q`, and read what happened."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import Future
    from typing import Any

    from tests.guarantees.sessions import Session

CANCEL = "select ev_id, consumer_name, state from pgq.cancel_event('q', %s::bigint[])"
SKIP = "select ev_id, consumer_name, state from pgq.skip_event('q', %s, %s::bigint[])"
STATES = "select array_agg(state order by ev_id) from pgq.cancel_event('q', %s::bigint[])"
ROWS = "select count(*) from pgq.skipped_event where skip_sub > 0 and skip_txid > 0"
RETRY = """
    select pgq.event_retry(%s, %s::bigint[], %s::bigint[], array_fill('0'::interval, array[%s]))
"""

States = dict[tuple[int, str], str]


def cancel(session: Session, *ids: int) -> States:
    """Cancel events: what happened, by event and consumer."""
    return {(row[0], row[1]): row[2] for row in session.all(CANCEL, list(ids))}


def skip(session: Session, consumer: str, *ids: int) -> States:
    """Skip events for one consumer."""
    return {(row[0], row[1]): row[2] for row in session.all(SKIP, consumer, list(ids))}


def states(session: Session, *ids: int) -> list[str]:
    """Cancel events of a queue with one consumer: what happened, in the order of their ids."""
    return session.one(STATES, list(ids)) or []


def states_later(session: Session, *ids: int) -> Future[Any]:
    """Cancel events, which will have to wait."""
    return session.later(STATES, list(ids))


def retry(session: Session, batch: int | None, *data: str) -> None:
    """Put events of a batch into the retry queue, due now."""
    found = [event for event in session.events(batch) if event.data in data]
    ids, txids = [event.id for event in found], [event.txid for event in found]
    assert session.one(RETRY, batch, ids, txids, len(ids)) == len(data)
