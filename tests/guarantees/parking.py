"""A consumer that parks failed events, written with plain calls; it plays with keys and numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from tests.guarantees.sessions import Database, Session

TAKE = "select batch_id from pgq.take_parked('q', 'c', %s)"
PARKED = "select array_agg(ev_data order by park_key, park_no) from pgq.parked"
DUE = f"{PARKED} where park_after is not null"
PARK = "select pgq.event_park(%s, %s, %s, %s, %s::interval[], %s)"


def keyed(db: Database, *data: str) -> Session:
    """Insert an event for each text, whose first letter is its key, and tick."""
    db.queue()
    insert_keyed(db.main, *data)
    return db.main


def insert_keyed(session: Session, *data: str) -> None:
    """Insert events, as in `keyed`."""
    for each in data:
        session.insert(each)
    session.tick()


def park(session: Session, batch: int | None, *failed: str, after: str = "0 s") -> int:
    """Park events of a batch: these failed, and those behind them in the batch follow."""
    keys = {data[0] for data in failed}
    events = [event for event in session.events(batch) if event.data[0] in keys]
    seen: set[str] = set()
    chosen = []
    for event in events:
        seen |= {event.data[0]} if event.data in failed else set()
        chosen += [event] if event.data[0] in seen else []
    ids, txids = [event.id for event in chosen], [event.txid for event in chosen]
    delays = [after if event.data in failed else None for event in chosen]
    errors = ["E" if event.data in failed else None for event in chosen]
    key = [event.data[0] for event in chosen]
    return int(session.one(PARK, batch, ids, txids, key, delays, errors))


def take(session: Session, limit: int = 1000) -> int | None:
    """Open a batch of parked events."""
    batch: int | None = session.one(TAKE, limit)
    return batch


def taken(session: Session, limit: int = 1000) -> list[str]:
    """Take the parked events that are due, and finish them."""
    batch = take(session, limit)
    if batch is None:
        return []
    data = session.data(batch)
    assert session.finish(batch) == 1
    return data


def parked(session: Session) -> list[str]:
    """Return all parked events, by key and in their order."""
    return session.one(PARKED) or []


def parked_keys(session: Session, batch: int | None, keys: Collection[str]) -> set[str]:
    """Return which of these keys are parked."""
    return {key for (key,) in session.all("select pgq.get_parked_keys(%s, %s)", batch, list(keys))}


def set_aside(db: Database, *failed: str, data: tuple[str, ...], after: str = "0 s") -> Session:
    """Make a queue with events, and park these and what follows them."""
    session = keyed(db, *data)
    batch = session.next()
    park(session, batch, *failed, after=after)
    session.finish(batch)
    return session
