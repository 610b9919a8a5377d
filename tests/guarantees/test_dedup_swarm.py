"""Many sessions that insert by few keys at random: what they are told is what is there."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psycopg

from tests.guarantees.dedup import CLEAN, read
from tests.guarantees.sessions import RC, RR, SERIALIZABLE

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

SESSIONS, TRANSACTIONS, KEYS = 6, 40, 5
REPEAT = ("40001", "40P01")  # another session was faster; a deadlock
EVENTS = "select ev_extra1, array_agg(ev_id) from pgq.event_1 group by 1"
ONCE = "select pgq.insert_event_once('q', %s, '1 hour', 't', %s, %s)::text"


def test_each_key_has_one_event_and_everybody_is_told_its_id(db: Database) -> None:
    db.queue()
    sessions = [db.open() for _ in range(SESSIONS)]
    with ThreadPoolExecutor(SESSIONS) as threads:
        told = [each for some in threads.map(insert, sessions, range(SESSIONS)) for each in some]
    events = dict(db.main.all(EVENTS))
    assert all(len(ids) == 1 for ids in events.values())
    assert {key: [ev_id] for key, ev_id, is_new in told if is_new} == events
    assert {(key, (ev_id,)) for key, ev_id, _ in told} == {(k, tuple(i)) for k, i in events.items()}
    assert len(db.main.deliver()) == len(events)


def insert(session: Session, seed: int) -> list[tuple[str, int, bool]]:
    """Run transactions; return (key, id, is_new) of all calls that were committed."""
    chance = random.Random(seed)
    told: list[tuple[str, int, bool]] = []
    for number in range(TRANSACTIONS):
        keys = chance.sample(range(KEYS * (1 + number // 10)), chance.randint(1, 3))
        session.begin(chance.choice((RC, RC, RR, SERIALIZABLE)))
        try:
            found = [call(session, f"{key}") for key in keys]
            if chance.random() < 0.3:
                session.run("savepoint s")
                call(session, f"{chance.randrange(100)}")
                session.run("rollback to s")
            if chance.random() < 0.2:
                session.one(CLEAN)
            if chance.random() < 0.4:
                session.rollback()
            else:
                session.commit()
                told += found
        except psycopg.Error as error:
            if error.sqlstate not in REPEAT:
                raise
            session.rollback()
    return told


def call(session: Session, key: str) -> tuple[str, int, bool]:
    """Insert by a key, which the event holds too."""
    return (key, *read(session.one(ONCE, key, "d", key)))
