"""Runs of the consumer `c` on the queue `q`, which has lanes by extra1."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.support.gates import Gate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    from tests.guarantees.sessions import Database, Session

TAKE = "select batch_id, worker from pgq.take_lane('q', 'c', %s, %s::interval, %s::interval)"
LOCK = "select pg_advisory_lock_shared(7366516, hashtext(%s))"
INSERT = "select pgq.insert_event('q', 't', %s, %s, null, null, null)"
SET = "select pgq.set_lanes('q', 'c', %s, %s)"
CAREFUL = "select part_size, tries, died from pgq.take_lane('q', 'c', %s)"
LANES = "select count(*) from pgq.registration where sub_mode = 'lane'"
TAKEN = "select batch_id from pgq.take_lane('q', %s, 'host:1:x')"
REGISTER = "select lanes || ' ' || key from pgq.register_lanes('q', 'c', %s, %s)"
# Between its first look and its lock, a run asks these functions.
HELD = {
    "key_hash": """
        create function pgq.key_hash() returns bigint language plpgsql as $$ begin
        {}
        return pgq.key_hash_itself(); end $$""",
    "check_asked_filter": """
        create function pgq.check_asked_filter(p pgq.current_position, i_filter jsonb)
        returns void language plpgsql as $$ begin
        {}
        perform pgq.check_asked_filter_itself(p, i_filter); end $$""",
    "run_is_dead": """
        create function pgq.run_is_dead(s pgq.current_position, i_dead_interval interval)
        returns boolean language plpgsql as $$ declare
        is_dead boolean := pgq.run_is_dead_itself(s, i_dead_interval); begin
        {}
        return is_dead; end $$""",
}
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

    def take_later(self) -> Future[Any]:
        """Take the next batch of a lane, which will have to wait."""
        return self.session.later(TAKE, self.holder, None, None)

    def die(self) -> None:
        """Give up the lock, as the end of the session does."""
        self.session.one("select pg_advisory_unlock_all()::text")

    def come_back(self) -> None:
        """Take the lock again, as a run does that had lost its session only."""
        self.die()
        self.session.one(LOCK, self.holder)

    def events(self, batch: int | None) -> list[tuple[str, str]]:
        """Read a batch: the keys and payloads."""
        query = "select ev_extra1, ev_data from pgq.get_batch_events(%s)"
        return [(key, data) for key, data in self.session.all(query, batch)]

    def finish(self, batch: int | None) -> int:
        """Finish a batch."""
        return self.session.finish(batch)

    def take_and_read(self) -> list[tuple[str, str]]:
        """Take, read and finish a batch, if there is one."""
        batch = self.take()
        found = self.events(batch) if batch is not None else []
        assert batch is None or self.finish(batch) == 1
        return found

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


@contextmanager
def held_look(db: Database, run: Run, function: str = "key_hash") -> Iterator[Gate]:
    """Hold a run between its look at a lane and its lock."""
    db.main.run(f"alter function pgq.{function} rename to {function}_itself")
    with db.held(run.session, HELD[function]) as gate:
        yield gate


def in_order(events: list[tuple[str, str]]) -> bool:
    """Whether the events of each key come in the order of their payloads, none twice."""
    by_key: dict[str, list[str]] = {}
    for key, data in events:
        by_key.setdefault(key, []).append(data)
    return all(data == sorted(set(data)) for data in by_key.values())
