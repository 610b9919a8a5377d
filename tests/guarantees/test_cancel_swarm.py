"""Producers that tick, consumers of every kind and sessions that cancel, all at once."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

import psycopg

from tests.guarantees.lanes import INSERT
from tests.guarantees.sessions import RC, RR

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.guarantees.sessions import Database, Session

TRANSACTIONS = 40  # of each producer, with three events each
CANCELLATIONS = 30  # of each session that cancels
CONSUMERS = {  # how each takes a batch, and in which isolation level it finishes it
    "plain": ("select pgq.next_batch('q', 'plain')", RC),
    "strict": ("select pgq.next_batch('q', 'strict')", RR),
    "shared": ("select batch_id from pgq.take_part('q', 'shared', '1')", RC),
    "lanes": ("select batch_id from pgq.take_lane('q', 'lanes', 'host:1:x')", RC),
}
CANCEL = "select ev_id, consumer_name, state from pgq.cancel_event('q', %s::bigint[])"
REPEATED = {"40001", "40P01"}


class Swarm:
    """What the threads share."""

    def __init__(self, db: Database) -> None:
        """Make the queue and the consumers."""
        db.queue(consumers=("c", *CONSUMERS))
        db.main.one("select pgq.unregister_consumer('q', 'c')")
        db.main.one("select pgq.register_subconsumer('q', 'shared', '1')")
        db.main.one("select pgq.set_lanes('q', 'lanes', 3, 'extra1')")
        self.lock = Lock()
        self.inserted: list[int] = []
        self.told: dict[str, dict[int, set[str]]] = {name: defaultdict(set) for name in CONSUMERS}
        self.delivered: dict[str, Counter[int]] = {name: Counter() for name in CONSUMERS}
        self.ends = Event()

    def produce(self, session: Session) -> None:
        """Insert events, three in a transaction, and tick."""
        for number in range(TRANSACTIONS):
            session.begin()
            ids = [int(session.one(INSERT, "x", f"key {number % 7}")) for _ in range(3)]
            session.commit()
            with self.lock:
                self.inserted += ids
            session.tick()

    def cancel(self, session: Session, seed: int) -> None:
        """Cancel some of the newest events."""
        chance = random.Random(seed)
        for _ in range(CANCELLATIONS):
            with self.lock:
                ids = [each for each in self.inserted[-12:] if chance.random() < 0.3]
            rows = repeated(session, partial(session.all, CANCEL, ids), RC)
            with self.lock:
                for event, consumer, state in rows:
                    self.told[consumer][event].add(state)

    def consume(self, session: Session, name: str) -> None:
        """Take, read twice and finish batches, until the end."""
        take, isolation = CONSUMERS[name]
        session.one("select pg_advisory_lock_shared(7366516, hashtext('host:1:x'))")
        while True:
            last = self.ends.is_set()
            batch = repeated(session, partial(session.one, take), RC)
            if batch is not None:
                events = session.events(batch)
                assert session.events(batch) == events
                self.delivered[name].update(event.id for event in events)
                assert repeated(session, partial(session.finish, batch), isolation) == 1
            elif last:
                return


def repeated(session: Session, call: Callable[[], Any], isolation: str) -> Any:
    """Call in a transaction, again while it collides with another one."""
    while True:
        session.begin(isolation)
        try:
            found = call()
            session.commit()
        except psycopg.Error as error:
            session.rollback()
            if error.sqlstate not in REPEATED:
                raise
        else:
            return found


def test_every_answer_is_true(db: Database) -> None:
    swarm = Swarm(db)
    with ThreadPoolExecutor(8) as pool:
        try:
            reads = [pool.submit(swarm.consume, db.open(), name) for name in CONSUMERS]
            writes = [pool.submit(swarm.produce, db.open()) for _ in range(2)]
            writes += [pool.submit(swarm.cancel, db.open(), seed) for seed in range(2)]
            for each in writes:
                each.result(timeout=60)
        finally:
            db.main.tick()
            swarm.ends.set()
        for each in reads:
            each.result(timeout=60)
    for name in CONSUMERS:
        told, delivered = swarm.told[name], swarm.delivered[name]
        assert {event for event in told if "cancelled" in told[event]} & set(delivered) == set()
        expected = {event for event in swarm.inserted if "cancelled" not in told[event]}
        assert delivered == Counter(expected)
        assert all(len(states) == 1 for states in told.values() if states)
    both = [state for told in swarm.told.values() for states in told.values() for state in states]
    assert {"cancelled", "delivered"} <= set(both)
