"""Calls that move the consumer `c` of the queue `q` to another place."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.guarantees.sessions import Session

SEEK = "select tick_id from pgq.seek_consumer('q', 'c', %s, %s)"
SEEK_TIME = "select tick_id from pgq.seek_consumer('q', 'c', null, false, %s)"
MOVE_RETRIES = "select pgq.maint_retry_events()"
RETRIES = "select array_agg(ev_data order by ev_id) from pgq.retry_queue"
PINS = "select pgq.pin_range('q', 'c', %s, %s)"


def ticked(session: Session, *ranges: str) -> list[int]:
    """Insert an event for each letter, and tick after each text: the tick before, and these."""
    ticks = [int(session.one("select max(tick_id) from pgq.get_tick_info('q')"))]
    for data in ranges:
        for letter in data:
            session.insert(letter)
        ticks.append(session.tick())
    return ticks


def retry(session: Session, batch: int | None, *wanted: str, seconds: int = 0) -> None:
    """Put events of a batch into the retry queue."""
    for event in session.events(batch):
        if event.data in wanted:
            session.one("select pgq.event_retry(%s, %s, %s)", batch, event.id, seconds)


def fail(session: Session, *wanted: str, seconds: int = 0) -> list[str]:
    """Take all there is, and retry these of the events."""
    found = []
    while (batch := session.next()) is not None:
        found += session.data(batch)
        retry(session, batch, *wanted, seconds=seconds)
        assert session.finish(batch) == 1
    return found


def put_back(session: Session) -> None:
    """Insert the retried events that are due again, and tick."""
    session.one(MOVE_RETRIES)
    session.tick()
