"""Ranges of ticks of the queue `q`, and the subscription of its consumer `c`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.guarantees.sessions import Session

EVENTS = "select ev_id, ev_txid, ev_data from pgq.get_tick_events('q', %s, %s)"
STAGES = "select stage from pgq.get_tick_stages('q', %s, %s)"
SHARE = "select pgq.tick_event_sql('q', %s, %s, %s)"
PIN = "select pgq.pin_range('q', 'c', %s, %s)"
ADVANCE = "select pgq.advance_subscription('q', 'c', %s, %s)"


def ticks(session: Session) -> list[int]:
    """List the ticks that are kept."""
    return [row[0] for row in session.all("select tick_id from pgq.get_tick_info('q')")]


def data(session: Session, first: int, last: int) -> list[str]:
    """Read the payloads of a range."""
    return [row[2] for row in session.all(EVENTS, first, last)]


def shared(session: Session, first: int, last: int) -> list[tuple[Any, ...]]:
    """Read a range as those who share it do: what was not staged, and each stage, by id."""
    found: list[tuple[Any, ...]] = []
    for part in ([], *([stage] for (stage,) in session.all(STAGES, first, last))):
        query = session.one(SHARE, first, last, part)
        found += session.all(f"select ev_id, ev_txid, ev_data from ({query}) e")
    return sorted(found)
