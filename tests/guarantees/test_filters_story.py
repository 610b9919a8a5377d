"""Filters in random stories: each committed event that passes comes once, and no other comes."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.guarantees.sessions import Database, Session

FILTER = {"types": ["order.*", "paid"], "extra1": ["eu", "us"]}
TYPES = ("order.new", "order.", "order", "paid", "paid.", "other", None)
EXTRAS = ("eu", "us", "fr", None)
INSERT = "select pgq.insert_event('q', %s, %s, %s, null, null, null)"
EVENTS = "select ev_id, ev_txid, ev_data from pgq.get_batch_events(%s)"
RETRY = "select pgq.event_retry(%s, array[%s::bigint], array[%s::bigint], array[interval '0'])"
RECEIVE = """
    select batch_id, ev_id, ev_txid, ev_data from pgq.receive('q', 'c', %s, '1 minute')
"""
DUTIES = (
    "select pgq.maint_rotate_tables_step1('q')",
    "select pgq.maint_rotate_tables_step2()",
    "select pgq.compact_ticks()",
    "select pgq.compact_positions()",
    "select pgq.maint_ticks('q')",
    "select pgq.maint_positions()",
    "select pgq.maint_retry_events()",
)


class Taken(NamedTuple):
    """An event of a batch or of a lease."""

    batch: int
    id: int
    txid: int
    data: str


def next_batch(session: Session, _random: Random) -> list[Taken]:
    """Take a batch as a plain consumer; an empty one is finished."""
    return whole(session, session.next())


def take_part(session: Session, random: Random) -> list[Taken]:
    """Take a range, or a part of it, as one of two workers."""
    worker = random.choice("12")
    session.one("select pgq.register_subconsumer('q', 'c', %s)", worker)
    take = "select batch_id from pgq.take_part('q', 'c', %s, i_wanted => %s)"
    return whole(session, session.one(take, worker, random.choice([None, 1, 3])))


def receive(session: Session, random: Random) -> list[Taken]:
    """Lease some events."""
    return [Taken(*row) for row in session.all(RECEIVE, random.randint(1, 4))]


def whole(session: Session, batch: int | None) -> list[Taken]:
    """Read a batch; finish it if it is empty."""
    if batch is None:
        return []
    found = [Taken(batch, *row) for row in session.all(EVENTS, batch)]
    if not found:
        assert session.finish(batch) == 1
    return found


class Story:
    """Producers that overlap, duties of the ticker, and a consumer that retries some events."""

    def __init__(self, db: Database, seed: int, take: Callable[[Session, Random], list[Taken]]):
        self.random = Random(seed)  # a story that can be told again
        self.main = db.main
        self.take = take
        self.producers = {db.open(): list[str]() for _ in range(3)}
        self.expected: list[str] = []
        self.done: list[str] = []
        self.count = 0

    def produce(self) -> None:
        """Insert an event, or end the transaction of a producer."""
        session = self.random.choice(list(self.producers))
        passing = self.producers[session]
        if not session.connection.info.transaction_status:
            session.begin()
        if self.random.random() < 0.3:
            commits = self.random.random() < 0.8
            session.run("commit" if commits else "rollback")
            self.expected += passing if commits else []
            passing.clear()
            return
        self.count += 1
        kind, extra = self.random.choice(TYPES), self.random.choice(EXTRAS)
        session.one(INSERT, kind, f"{kind} {extra} {self.count}", extra)
        if kind in ("order.new", "order.", "paid") and extra in ("eu", "us"):
            passing.append(f"{kind} {extra} {self.count}")

    def consume(self, retries: float = 0.2) -> bool:
        """Take events, retry some and finish all; say whether there were any."""
        taken = self.take(self.main, self.random)
        for event in taken:
            if self.random.random() < retries:
                self.main.one(RETRY, event.batch, event.id, event.txid)
            else:
                self.done.append(event.data)
        if taken and self.take is receive:
            ids = [event.id for event in taken]
            assert self.main.one("select pgq.finish_events(%s, %s::bigint[])", taken[0].batch, ids)
        elif taken:
            assert self.main.finish(taken[0].batch) == 1
        return bool(taken)

    def step(self) -> None:
        """Do something."""
        chance = self.random.random()
        if chance < 0.5:
            self.produce()
        elif chance < 0.65:
            self.main.tick()
        elif chance < 0.85:
            self.consume()
        else:
            self.main.one(self.random.choice(DUTIES))

    def end(self) -> None:
        """End all transactions, and take all there is."""
        for session, passing in self.producers.items():
            session.run("commit")
            self.expected += passing
        for _ in range(3):
            self.main.one("select pgq.maint_retry_events()")
            self.main.tick()
            while self.consume(retries=0):
                pass


@pytest.mark.parametrize("take", [next_batch, take_part, receive])
@pytest.mark.parametrize("seed", range(2))
def test_each_committed_event_that_passes_comes_once(
    db: Database, seed: int, take: Callable[[Session, Random], list[Taken]]
) -> None:
    db.queue()
    db.main.one("select pgq.set_consumer_filter('q', 'c', %s::jsonb)", json.dumps(FILTER))
    story = Story(db, seed, take)
    for _ in range(300):
        story.step()
    story.end()
    assert len(story.expected) >= 5
    assert sorted(story.done) == sorted(story.expected)
