"""Delayed events in tests of guarantees: insert, wait for the due time, move."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from datetime import datetime

    from tests.guarantees.sessions import Database, Session

MOVE = "select moved from pgq.move_delayed_events()"
UNTIL_DUE = """
    select ev_id, due
      from (select clock_timestamp() + interval '100 ms' as due offset 0) t,
           pgq.insert_events_at(%s, due, array_fill('t'::text, %s), %s) ev_id"""
FEW = 3  # events that one call moves, after `few_a_call`


def soon(session: Session) -> datetime:
    """Return a time a moment ahead: an event that is inserted after it is not delayed."""
    time: datetime = session.one("select clock_timestamp() + interval '300 ms'")
    return time


def delay(session: Session, time: datetime, *data: str, queue: str = "q") -> list[int]:
    """Insert events that are due at the time; return their ids."""
    query = "select * from pgq.insert_events_at(%s, %s, array_fill('t'::text, %s), %s)"
    return [row[0] for row in session.all(query, queue, time, [len(data)], list(data))]


def wait_until(session: Session, time: datetime) -> None:
    """Wait until the time has passed."""
    eventually(lambda: session.one("select clock_timestamp() > %s", time))


def delay_until_due(session: Session, *data: str, queue: str = "q") -> list[int]:
    """Insert events, and wait until they are due."""
    rows = session.all(UNTIL_DUE, queue, [len(data)], list(data))
    wait_until(session, rows[0][1])
    return [event for event, _ in rows]


def move(session: Session) -> int:
    """Move everything that is due; return the number of events."""
    total = 0
    while moved := session.one(MOVE):
        total += moved
    return total


def come(db: Database) -> list[str]:
    """Move what is due, and return the events that the consumer gets."""
    move(db.main)
    return db.main.deliver()


def few_a_call(db: Database) -> None:
    """Let a call move FEW events."""
    source = db.main.one(
        "select pg_get_functiondef('pgq.move_delayed_events(text[])'::regprocedure)"
    )
    old = "c_events constant int := 2000"
    assert old in source
    db.main.run(source.replace(old, f"c_events constant int := {FEW}"))
