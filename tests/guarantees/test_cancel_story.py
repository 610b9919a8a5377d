"""Random stories of cancellations with filters, stages, lanes, workers, parts, retries at once."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.guarantees.cancelling import cancel
from tests.guarantees.stages import commit_stage, stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.guarantees.sessions import Database, Row, Session

TAKES = {
    "plain": "select pgq.next_batch('q', 'c')",
    "lanes": "select batch_id from pgq.take_lane('q', 'c', 'host:1:x')",
    "shared": "select batch_id from pgq.take_part('q', 'c', '1')",
}
BEFORE = {
    "plain": "select 1",
    "lanes": "select pgq.set_lanes('q', 'c', 3, 'extra1')",
    "shared": "select pgq.register_subconsumer('q', 'c', '1')",
}
OTHER_LANES = "select pgq.set_lanes('q', 'c', %s, 'extra1')"
FILTER = """select pgq.set_consumer_filter('q', 'c', '{"types": ["t"]}')"""
INSERT = "select pgq.insert_event('q', %s, %s, %s, null, null, null)"
RETRY = "select pgq.event_retry(%s, array[%s::bigint], array[%s::bigint], '{0}')"
FINISH_PART = "select pgq.finish_part(%s, %s)"
RANGE = "select ev_id from pgq.get_tick_events('q', %s, %s)"
ENDS = "select min(tick_id), max(tick_id) from pgq.tick"


class Story:
    """What happened to each event, by its id; the consumer d has no filter and reads last."""

    def __init__(self, db: Database, mode: str, seed: int) -> None:
        """Make the queue and both consumers."""
        self.mode, self.chance = mode, random.Random(seed)
        db.queue(consumers=("c", "d"))
        self.main: Session = db.main
        self.main.one(BEFORE[mode])
        self.main.one(FILTER)
        self.main.one("select pg_advisory_lock_shared(7366516, hashtext('host:1:x'))")
        self.ends = False
        self.epoch = 0
        self.stages: dict[int, int] = {}  # those that wait, by their epochs
        self.inserted: set[int] = set()
        self.passes: set[int] = set()  # the filter
        self.delivered: Counter[int] = Counter()
        self.retried: Counter[int] = Counter()
        self.hidden: set[int] = set()  # from c
        self.hidden_from_d: set[int] = set()

    def insert(self) -> None:
        """Insert events, by themselves or as a stage that waits."""
        if self.chance.random() < 0.2:
            self.epoch += 1
            self.stages[self.epoch] = stage(self.main, *"abc", epoch=self.epoch)
            last = int(self.main.one("select max(ev_id) from pgq.event_1"))
            self.inserted |= {last - 2, last - 1, last}
            self.passes |= {last - 2, last - 1, last}
            return
        for _ in range(self.chance.randint(1, 5)):
            kind = self.chance.choice("ttb")
            event = self.main.one(INSERT, kind, "x", self.chance.choice("abcdef"))
            self.inserted.add(event)
            self.passes |= {event} if kind == "t" else set()

    def release(self) -> None:
        """Release the first stage that waits."""
        if self.stages:
            epoch = min(self.stages)
            assert commit_stage(self.main, self.stages.pop(epoch), epoch=epoch)

    def cancel(self, *ids: int) -> None:
        """Cancel events, and compare what is told with what was delivered."""
        told = cancel(self.main, *ids)
        for event in ids:
            state = told[event, "c"]
            pending = self.delivered[event] <= self.retried[event] and event in self.passes
            if pending or (event in self.hidden and not self.delivered[event]):
                assert state == "cancelled", event
            elif self.delivered[event] and event not in self.hidden:
                assert state == "delivered", event
            if state == "cancelled":
                self.hidden.add(event)
                self.retried[event] = max(0, self.delivered[event] - 1)  # the rest is removed
            assert told[event, "d"] == "cancelled"
            self.hidden_from_d.add(event)

    def some(self) -> list[int]:
        """Return some events that are in the queue."""
        known = sorted(self.inserted)
        return self.chance.sample(known, min(len(known), self.chance.randint(0, 3)))

    def consume(self) -> bool:
        """Take a batch, cancel events while it is open, and finish it, in two parts."""
        batch = self.main.one(TAKES[self.mode])
        if batch is None:
            return False
        events = self.main.events(batch)
        for event in events:
            self.delivered[event.id] += 1
            assert event.id not in self.hidden
            assert event.id in self.passes
        self.cancel(*{*self.some(), *[event.id for event in events[:1]]})
        assert self.main.events(batch) == events
        if events and self.chance.random() < 0.5 and not self.ends:
            self.retry(batch, self.chance.choice(events))
            middle = events[len(events) // 2].id
            assert self.main.one(FINISH_PART, batch, middle) == 1
            left = [event for event in events if event.id > middle]
            self.cancel(*self.some())
            assert self.main.events(batch) == left
        assert self.main.finish(batch) == 1
        return True

    def retry(self, batch: int, event: Row) -> None:
        """Put an event of an open batch into the retry queue."""
        if self.main.one(RETRY, batch, event.id, event.txid):
            self.retried[event.id] += 1
            self.hidden.discard(event.id)

    def step(self) -> None:
        """Do one thing."""
        steps: dict[Callable[[], object], int] = {
            self.insert: 4,
            self.main.tick: 4,
            self.consume: 4,
            lambda: self.cancel(*self.some()): 2,
            lambda: self.main.one("select pgq.maint_retry_events()"): 2,
            lambda: self.main.one("select pgq.maint_skipped_events()"): 1,
            self.change: 1,
            self.release: 1,
        }
        self.chance.choices([*steps], [*steps.values()])[0]()

    def change(self) -> None:
        """Change the number of lanes, unless an earlier change is not done."""
        changing = "select count(*) from pgq.registration where sub_stop_tick is not null"
        if self.mode == "lanes" and self.main.one(changing) == 0:
            self.main.one(OTHER_LANES, self.chance.randint(1, 4))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("mode", TAKES)
def test_story(db: Database, mode: str, seed: int) -> None:
    story = Story(db, mode, seed)
    for _ in range(120):
        story.step()
    story.ends = True
    while story.stages:
        story.release()
    for _ in range(3):
        story.main.one("select pgq.maint_retry_events()")
        story.main.tick()
        while story.consume():
            pass
    for event in story.passes - story.hidden:
        assert story.delivered[event] == 1 + story.retried[event]
    assert set(story.delivered) <= story.passes
    first, last = story.main.all(ENDS)[0]
    assert {row[0] for row in story.main.all(RANGE, first, last)} == story.inserted
    rest = []
    while (batch := story.main.next("d")) is not None:
        rest += [event.id for event in story.main.events(batch)]
        assert story.main.finish(batch) == 1
    assert Counter(rest) == Counter(story.inserted - story.hidden_from_d)
