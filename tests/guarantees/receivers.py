"""Receivers of the shared consumer `c` on the queue `q`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

RECEIVE = "select batch_id, ev_id, ev_txid, ev_data, attempt from pgq.lease_batch('q', 'c', %s, %s)"
DONE = "select pgq.finish_events(%s, %s::bigint[])"
END = "update pgq.position set pos_until = now() - interval '1 hour' where pos_batch = %s"


class Leased(NamedTuple):
    """One row of receive."""

    batch: int
    id: int
    txid: int
    data: str
    attempt: int


def receive(session: Session, limit: int = 10, lease: str = "1 minute") -> list[Leased]:
    """Lease events."""
    return [Leased(*row) for row in session.all(RECEIVE, limit, lease)]


def data(leased: list[Leased]) -> list[str]:
    """Return what the events hold."""
    return [each.data for each in leased]


def done(session: Session, *leased: Leased) -> int:
    """Finish events of one lease."""
    found: int = session.one(DONE, leased[0].batch, [each.id for each in leased])
    return found


def end(db: Database, leased: list[Leased]) -> None:
    """Let the lease end."""
    db.main.connection.execute(END.encode(), [leased[0].batch])


def filled(db: Database, *ticks: str) -> None:
    """Make the queue with these events, a tick after each text."""
    db.queue()
    add(db, *ticks)


def add(db: Database, *ticks: str) -> None:
    """Insert more events, a tick after each text."""
    for events in ticks:
        for event in events:
            db.main.insert(event)
        db.main.tick()


def drain(session: Session, limit: int = 10) -> list[str]:
    """Receive and finish all there is."""
    found = []
    while leased := receive(session, limit):
        found += data(leased)
        assert done(session, *leased) == 1
    return found
