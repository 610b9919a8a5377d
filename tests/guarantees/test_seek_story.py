"""Seeks in random stories: after each, every event behind the place comes once, and no other."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
import pytest

from tests.guarantees.lanes import SET, Run
from tests.guarantees.seek import MOVE_RETRIES, SEEK
from tests.guarantees.workers import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.guarantees.sessions import Database, Session

STEPS = 400
KINDS = ("plain", "shared", "lanes")
INSERT = "select pgq.insert_event('q', 't', %s, %s, null, null, null)"
EVENTS = "select ev_id, ev_retry is not null from pgq.get_batch_events(%s)"
BETWEEN = "select ev_id from pgq.get_tick_events('q', %s, %s)"
KEPT = "select tick_id from pgq.get_tick_info('q')"
SEQUENCE = "select tick_event_seq from pgq.tick where tick_id = %s"
WAITING = "select ev_id from pgq.retry_queue order by 1"


class Held(NamedTuple):
    """A batch that was read, by whom, and after how many seeks."""

    session: Session
    batch: int
    seeks: int
    events: list[Any]


class Story:
    """Random steps of producers, a consumer, maintenance and an operator who seeks."""

    def __init__(self, db: Database, kind: str, seed: int) -> None:
        """Make the queue and those who use it."""
        db.queue()
        self.main, self.random, self.kind = db.main, random.Random(seed), kind
        self.producers = [db.open() for _ in range(3)]
        self.busy: set[Session] = set()
        self.last, self.number, self.seeks, self.place = 1, 0, 0, 1
        self.ticked: dict[int, list[int]] = {}  # the events that each tick was the first to see
        self.had: Counter[int] = Counter()  # finished since the last seek
        self.again: Counter[int] = Counter()  # retried copies that were finished since then
        self.owed: Counter[int] = Counter()  # copies that are to come
        self.held: list[Held] = []
        self.lost = 0
        if kind == "lanes":
            self.main.one(SET, 3, "extra1")
            self.takers: list[Any] = [Run(db.open(), f"host:{n}:x") for n in (1, 2)]
        elif kind == "shared":
            self.takers = [Worker(db.open(), str(n), f"host:{n}:x").lock() for n in (1, 2)]
        else:
            self.takers = []

    def step(self) -> None:
        """Do something."""
        steps: dict[Callable[[], None], float] = {
            self.produce: 6,
            self.tick: 3,
            self.consume: 6,
            self.late: 2,
            self.maintain: 3,
            self.retries: 1,
            self.seek: 0.3,
        }
        self.random.choices(list(steps), list(steps.values()))[0]()

    def produce(self) -> None:
        """Insert in one of several transactions, or end it."""
        producer = self.random.choice(self.producers)
        if producer not in self.busy:
            producer.begin()
            self.busy.add(producer)
        for _ in range(self.random.randint(1, 3)):
            self.number += 1
            producer.one(INSERT, str(self.number), f"key {self.number % 5}")
        if self.random.random() < 0.6:
            self.end(producer, commit=self.random.random() < 0.8)

    def end(self, producer: Session, *, commit: bool) -> None:
        """End a producer's transaction."""
        self.busy.discard(producer)
        (producer.commit if commit else producer.rollback)()

    def tick(self) -> None:
        """Tick, and note what is new."""
        tick = self.main.tick()
        self.ticked[tick] = [row[0] for row in self.main.all(BETWEEN, self.last, tick)]
        self.last = tick

    def take(self) -> Held | None:
        """Take a batch and read it."""
        taker = self.random.choice(self.takers) if self.takers else None
        session = taker.session if taker else self.main
        batch = taker.take() if taker else session.next()
        if batch is None:
            return None
        return Held(session, batch, self.seeks, session.all(EVENTS, batch))

    def consume(self) -> None:
        """Take a batch; finish it now, or keep it to finish it later."""
        held = self.take()
        if held is None:
            return
        if self.random.random() < 0.3:
            self.held.append(held)
        else:
            self.finish(held)

    def late(self) -> None:
        """Finish a batch that was taken before."""
        if self.held:
            self.finish(self.held.pop(self.random.randrange(len(self.held))), retries=False)

    def finish(self, held: Held, *, retries: bool = True) -> None:
        """Retry some events of a batch, and finish it."""
        ids = [event for event, _ in held.events]
        failed = {event for event in ids if ids.count(event) == 1 and self.random.random() < 0.15}
        for event in failed if retries else ():
            held.session.one("select pgq.event_retry(%s, %s, 0)", held.batch, event)
            self.owed[event] += 1
        if held.session.finish(held.batch):
            assert held.seeks == self.seeks, "a batch from before a seek was finished"
            self.had.update(event for event, copy in held.events if not copy)
            self.again.update(event for event, copy in held.events if copy)
        else:
            self.lost += held.seeks < self.seeks

    def retries(self) -> None:
        """Put retried events back."""
        self.main.one(MOVE_RETRIES)

    def maintain(self) -> None:
        """Rotate, delete ticks, compact: one of these."""
        call = self.random.choice(("ticks", "rotate", "compact_ticks", "compact_positions"))
        with suppress(psycopg.errors.LockNotAvailable):
            if call == "rotate":
                self.main.rotate()
            elif call == "ticks":
                self.main.one("select pgq.maint_ticks('q')")
            else:
                self.main.one(f"select pgq.{call}()")

    def seek(self, *, discard: bool | None = None) -> None:
        """Move the consumer to a tick that is kept."""
        self.check()
        places = [tick for (tick,) in self.main.all(KEPT)]
        self.place = self.random.choice((places[0], places[-1], self.random.choice(places)))
        drop = self.random.random() < 0.5 if discard is None else discard
        assert self.main.one(SEEK, self.place, drop) == self.place
        self.seeks += 1
        self.had.clear()
        self.again.clear()
        self.owed = Counter(event for (event,) in self.main.all(WAITING))

    @property
    def behind(self) -> Counter[int]:
        """The events behind the place of the last seek, each once."""
        ticks = [tick for tick in self.ticked if tick > self.place]
        return Counter(event for tick in ticks for event in self.ticked[tick])

    def check(self) -> None:
        """Judge what was finished since the last seek."""
        assert not self.had - self.behind, "twice, or from before the place"

    def settle(self) -> None:
        """End what is open, and consume until nothing is left."""
        for producer in set(self.busy):
            self.end(producer, commit=True)
        self.held.clear()
        for _ in range(3):
            self.tick()
            while (held := self.take()) is not None:
                self.finish(held, retries=False)
            self.retries()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("discard", [False, True])
def test_each_event_behind_the_place_comes_once(db: Database, kind: str, *, discard: bool) -> None:
    story = Story(db, kind, seed=11 + discard)
    for _ in range(STEPS):
        story.step()
    story.seek(discard=discard)
    seen = 0 if discard else db.main.one(SEQUENCE, story.place)
    for _ in range(40):
        story.step()
    story.settle()
    assert story.had == story.behind
    assert not story.owed - story.again, "a retried event is lost"
    more = {event for event in story.again - story.owed if event > seen}
    assert more == set(), "what was dropped came"
    assert len(story.ticked) > 30
    assert story.seeks > 3
    assert story.lost > 0
