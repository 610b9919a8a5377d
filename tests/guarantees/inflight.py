"""Receivers of the shared consumer `s` on the queue `q`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

RECEIVE = """
    select ev_id, ev_data, ev_extra1, attempts, token from pgq.receive('q', 's', %s, %s, %s, %s)"""
END = "update pgq.inflight set run_due = clock_timestamp() where run_token = %s"
SOON = "update pgq.inflight set run_due = now() where run_token = -1"


class Claimed(NamedTuple):
    """One row of receive."""

    id: int
    data: str
    key: str | None
    attempts: int
    token: int


def shared(db: Database, *data: str, key: str | None = None, **config: str) -> None:
    """Make the queue with a shared consumer, and these events."""
    db.queue(consumers=(), **config)
    db.main.one("select pgq.register_shared_consumer('q', 's', %s)", key)
    insert(db.main, *data)


def insert(session: Session, *data: str) -> None:
    """Insert events; the key of each is its first letter."""
    for each in data:
        session.one("select pgq.insert_event('q', 't', %s, %s, null, null, null)", each, each[0])


def receive(
    session: Session,
    limit: int = 1,
    lease: str = "1 minute",
    *,
    holder: int | None = None,
    alone: bool = False,
) -> list[Claimed]:
    """Claim events."""
    return [Claimed(*row) for row in session.all(RECEIVE, limit, lease, holder, alone)]


def data(claimed: list[Claimed]) -> list[str]:
    """Return what the events hold."""
    return [each.data for each in claimed]


def call(session: Session, name: str, claimed: list[Claimed], *more: Any) -> int:
    """Call done, retry, dead or the like for claimed events."""
    ids = [each.id for each in claimed]
    query = f"select pgq.{name}('q', 's', %s, %s{', %s' * len(more)})"
    return int(session.one(query, claimed[0].token, ids, *more))


def done(session: Session, claimed: list[Claimed]) -> int:
    """End claimed events."""
    return call(session, "done", claimed)


def follow(db: Database) -> None:
    """Tick, and let the consumer's position follow."""
    db.main.tick()
    db.main.run("update pgq.front set front_moved = '-infinity'")
    assert receive(db.main) == []


def end_lease(db: Database, claimed: list[Claimed]) -> None:
    """Let the lease end."""
    db.main.connection.execute(END.encode(), [claimed[0].token])


def drain(session: Session, limit: int = 10) -> list[str]:
    """Receive and end all there is."""
    found = []
    while claimed := receive(session, limit):
        found += data(claimed)
        assert done(session, claimed) == len(claimed)
    return found
