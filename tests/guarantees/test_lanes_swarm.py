"""Runs at the same time, in threads: no key in two of them, none out of order, though some die."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from threading import Event, Lock
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.guarantees.lanes import KEYS, SET, Run, insert
from tests.guarantees.sessions import Session
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

ROUNDS = 15
DEATHS = 5  # one batch of so many kills its run, the first one does


class Swarm:
    """What the runs of all threads have handled, and which keys they are handling."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.stop = Event()
        self.lock = Lock()
        self.taken = 0
        self.active: set[str] = set()
        self.handled: dict[str, list[str]] = {key: [] for key in KEYS}

    def work(self, number: int) -> int:
        """Run, die now and then, and run again, until all is handled; return the deaths."""
        deaths = 0
        while not self.stop.is_set():
            with closing(Session(self.dsn)) as session:
                deaths += self.live(Run(session, f"host:{number}:{deaths}"))
        return deaths

    def live(self, run: Run) -> int:
        """Take and finish batches; 1: it died with one, 0: it was stopped."""
        while not self.stop.is_set():
            batch = run.take()
            if batch is None:
                self.stop.wait(0.001)
                continue
            events = run.events(batch)
            keys = {key for key, _ in events}
            with self.lock:
                assert not self.active & keys, "two runs have a key"
                self.active |= keys
                dies = self.taken % DEATHS == 0
                self.taken += 1
            with self.lock:
                self.active -= keys
                for key, data in [] if dies else events:
                    self.handled[key].append(data)
            if dies:
                return 1
            assert run.finish(batch) == 1
        return 0

    def count(self) -> int:
        """Return how many events were handled."""
        return sum(map(len, self.handled.values()))


def change(session: Session, lanes: int) -> None:
    """Change the number of lanes, unless a change goes on."""
    try:
        session.one(SET, lanes, "extra1")
    except psycopg.Error as error:
        if error.sqlstate != "PQ021":
            raise


@pytest.mark.parametrize("parts", [(1, 8), (3, 4)])
def test_runs_keep_the_order_of_each_key(db: Database, parts: tuple[int, int]) -> None:
    db.queue()
    assert db.main.one(SET, parts[0], "extra1") == 1
    swarm = Swarm(db.dsn)
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(3))
        stack.callback(swarm.stop.set)
        threads = [pool.submit(swarm.work, number) for number in range(3)]
        for number in range(ROUNDS):
            db.main.begin()
            insert(db.main, number)
            db.main.commit()
            db.main.tick()
            if number % 5 == 0:
                change(db.main, parts[number % 2])
        everything = ROUNDS * len(KEYS)
        eventually(lambda: swarm.count() >= everything or any(each.done() for each in threads))
        swarm.stop.set()
        deaths = sum(each.result(timeout=30) for each in threads)
    numbers = [f"{number:03}" for number in range(ROUNDS)]
    assert swarm.handled == dict.fromkeys(KEYS, numbers)
    assert deaths > 0
