"""Runs of the consumer `c` on the queue `q`, which has lanes by extra1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

TAKE = "select batch_id, worker from pgq.take_lane('q', 'c', %s, %s::interval, %s::interval)"
LOCK = "select pg_advisory_lock_shared(7366516, hashtext(%s))"
INSERT = "select pgq.insert_event('q', 't', %s, %s, null, null, null)"
SET = "select pgq.set_lanes('q', 'c', %s, %s)"
KEYS = [f"key {number}" for number in range(20)]


class Run:
    """One process of the consumer: its session and its token."""

    def __init__(self, session: Session, holder: str) -> None:
        """Prove by the session's lock that the run lives."""
        self.session, self.holder = session, holder
        session.one(LOCK, holder)

    def take(self, lease: str | None = None, dead: str | None = None) -> int | None:
        """Take the next batch of a lane."""
        return self.take_with_lane(lease, dead)[0]

    def take_with_lane(self, lease: str | None = None, dead: str | None = None) -> Any:
        """Take the next batch of a lane: the batch and the lane."""
        return self.session.all(TAKE, self.holder, lease, dead)[0]

    def events(self, batch: int | None) -> list[tuple[str, str]]:
        """Read a batch: the keys and payloads."""
        query = "select ev_extra1, ev_data from pgq.get_batch_events(%s)"
        return [(key, data) for key, data in self.session.all(query, batch)]

    def finish(self, batch: int | None) -> int:
        """Finish a batch."""
        return self.session.finish(batch)

    def drain(self) -> list[tuple[str, str]]:
        """Take and finish all there is."""
        found = []
        while (batch := self.take()) is not None:
            found += self.events(batch)
            assert self.finish(batch) == 1
        return found


def insert(session: Session, *numbers: int) -> list[tuple[str, str]]:
    """Insert an event of each key for each number: the keys and payloads."""
    events = [(key, f"{number:03}") for number in numbers for key in KEYS]
    for key, data in events:
        session.one(INSERT, data, key)
    return events


def runs(db: Database, count: int = 2, *, lanes: int = 4, key: str = "extra1") -> list[Run]:
    """Make the queue, the consumer with its lanes, and runs with sessions of their own."""
    db.queue()
    assert db.main.one(SET, lanes, key) == 1
    return [Run(db.open(), f"host:{number}:x") for number in range(1, count + 1)]


def in_order(events: list[tuple[str, str]]) -> bool:
    """Whether the events of each key come in the order of their payloads, none twice."""
    by_key: dict[str, list[str]] = {}
    for key, data in events:
        by_key.setdefault(key, []).append(data)
    return all(data == sorted(set(data)) for data in by_key.values())
