"""Captured tables, copies of them chunk by chunk, and what consumers make of the events."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from psycopg.types.multirange import Multirange

    from tests.guarantees.sessions import Database, Session

State = dict[str, Any]  # rows, as row_to_json has them, by their keys
CHUNK = """
    select rows, ids, blocks, filenode::bigint
      from pgq.copy_chunk('q', %s, '{id}', 0, 100, %s)"""
EVENTS = "select ev_type, ev_data, ev_extra1, ev_extra2 from pgq.event_1 order by ev_id"
BATCH = "select ev_type, ev_data, ev_extra1 from pgq.get_batch_events(%s)"
RECEIVE = "select token, ev_id, ev_type, ev_data, ev_extra1 from pgq.receive('q', 's', 100)"

DONE = "select pgq.done('q', 's', %s, %s)"


class Event(NamedTuple):
    """What a test looks at of an event."""

    type: str
    data: str | None
    key: str | None
    old: str | None = None


def capture(db: Database, ddl: str, table: str = "public.kv") -> None:
    """Make a table, perhaps with rows, and capture it into the queue `q`."""
    db.main.run(ddl)
    db.main.one("select pgq.add_capture('q', %s)", table)


def kv(db: Database) -> None:
    """Make the table kv with two rows, and capture it; the last tick comes then."""
    rows = "insert into kv values (1, 'old'), (2, 'old')"
    capture(db, f"create table kv (id int primary key, v text); {rows}")
    db.main.tick()


def reserve(session: Session, count: int = 1000) -> Multirange[int]:
    """Reserve ids."""
    ids: Multirange[int] = session.one("select pgq.reserve_event_ids('q', %s)", count)
    return ids


def chunk(session: Session, ids: Multirange[int], table: str = "public.kv") -> tuple[Any, ...]:
    """Copy all blocks; return how many rows, the ids that are left, the blocks and the file."""
    return session.all(CHUNK, table, ids)[0]


def events(db: Database) -> list[Event]:
    """Return all events of the queue by id."""
    return [Event(*row) for row in db.main.all(EVENTS)]


def play(state: State, event: Event) -> None:
    """Do what a consumer does that keeps the last state of each key."""
    change = event.type.rpartition(".")[2]
    if change == "truncate":
        state.clear()
    elif change == "delete":
        state.pop(str(event.key), None)
    else:
        state[str(event.key)] = json.loads(str(event.data))


def receive_all(session: Session, state: State) -> State:
    """Apply the events that the shared consumer s has not received, and return the state."""
    while received := session.all(RECEIVE):
        for row in received:
            play(state, Event(*row[2:]))
        session.one(DONE, received[0][0], [row[1] for row in received])
    return state


def rows(session: Session) -> State:
    """Return the state that the table kv has."""
    return dict(session.all("select id::text, row_to_json(kv) from kv"))


def mirrored(db: Database) -> State:
    """Return the table's state, and see that batches, and all events by id, lead to it."""
    db.main.tick()
    by_batch: State = {}
    while (batch := db.main.next()) is not None:
        for row in db.main.all(BATCH, batch):
            play(by_batch, Event(*row))
        db.main.finish(batch)
    by_id: State = {}
    for event in events(db):
        play(by_id, event)
    state = rows(db.main)
    assert by_batch == by_id == state
    return state
