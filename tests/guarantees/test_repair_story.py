"""Two queues with the same random story; one is repaired now and then, and nobody notices.

Retries, parked and dead events, cancellations, seeks and changed lanes: after each step both have
given the same events, told the same, and keep the same.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.guarantees.everything import LOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.guarantees.sessions import Database, Session

STEPS = 150
QUEUES = ("a", "b")  # b is repaired
CONSUMERS = ("c", "d", "e")
HOLDER = "host:1:x"
TAKE = {
    "plain": ["select pgq.next_batch(%s, %s)", "select batch_id from pgq.take_parked(%s, %s, 5)"],
    "lanes": [
        f"select batch_id from pgq.take_lane(%s, %s, '{HOLDER}')",
        f"select batch_id from pgq.take_parked_lane(%s, %s, '{HOLDER}', 5)",
    ],
    "shared": ["select batch_id from pgq.take_part(%s, %s, '1')"],
}
BEFORE = {
    "plain": "select 1 where %s <> %s",
    "lanes": "select pgq.set_lanes(%s, %s, 3, 'extra1')",
    "shared": "select pgq.register_subconsumer(%s, %s, '1')",
}
INSERT = "select pgq.insert_event(%s, 't', %s, %s, null, null, null)"
EVENTS = """
    select ev_id, ev_txid, ev_data from pgq.get_batch_events(%s) order by 1"""
RETRY = "select pgq.event_retry(%s, array[%s::bigint], array[%s::bigint], '{0}')"
DEAD = "select pgq.event_dead(%s, array[%s::bigint], array[%s::bigint], array['why'])"
PARK = """
    select pgq.event_park(%s, array[%s::bigint], array[%s::bigint], array[%s], '{1 h}')"""
CANCEL = """
    select ev_id, consumer_name, replace(state, 'unknown', 'delivered')
      from pgq.cancel_event(%s, %s::bigint[])"""
SKIP = CANCEL.replace("cancel_event(%s,", "skip_event(%s, %s,")
SEEK = "select dropped from pgq.seek_consumer(%s, %s, %s, %s)"
TICKS = "select tick_id from pgq.get_tick_info(%s)"
KEPT = """
    select kind, co_name, ev_id from (
        select 'retry', ev_owner, ev_id from pgq.retry_queue
        union all select 'dead', ev_owner, ev_id from pgq.dead_event
        union all select 'parked', ev_owner, ev_id from pgq.parked) k (kind, owner, ev_id)
      join pgq.registration on sub_id = owner
      join pgq.consumer on co_id = sub_consumer
      join pgq.queue on queue_id = sub_queue
     where queue_name = %s order by 1, 2, 3"""


class Story:
    """Steps that are made on both queues."""

    def __init__(self, db: Database, mode: str, seed: int) -> None:
        """Make the queues and their consumers."""
        self.main: Session = db.main
        self.late = {queue: db.open() for queue in QUEUES}
        self.mode, self.seed, self.random = mode, seed, Random(seed)
        for queue in QUEUES:
            db.queue(queue, consumers=CONSUMERS)
            for consumer in CONSUMERS:
                self.main.one(BEFORE[mode], queue, consumer)
        self.main.one(LOCK)
        self.count = self.repairs = self.delivered = 0
        self.open = False
        # What is told of these depends on the copies left, which the consumer does not get.
        self.hidden: set[tuple[int, str]] = set()
        self.sought: set[str] = set()  # a seek has dropped some
        self.given: Counter[tuple[str, str, str]] = Counter()

    def both(self, call: Callable[[str], Any]) -> Any:
        """Do something on both queues; the results are equal."""
        one, other = (call(queue) for queue in QUEUES)
        assert one == other
        return one

    def step(self) -> None:
        """Do one thing."""
        steps: dict[Callable[[], Any], float] = {
            self.insert: 5,
            self.overlap: 2,
            lambda: self.both(self.main.tick): 3,
            self.drain: 5,
            self.cancel: 3,
            self.move: 2,
            self.revive: 1,
            self.seek: 1.5,
            self.rotate: 0.5,
            self.repair: 3,
            self.change: 0.5 if self.mode == "lanes" else 0,
        }
        self.random.choices([*steps], [*steps.values()])[0]()
        self.both(lambda queue: self.main.all(KEPT, queue))

    def insert(self) -> None:
        """Insert events with keys, each in a transaction of its own."""
        for _ in range(self.random.randint(1, 3)):
            self.count += 1
            event = (str(self.count), self.random.choice("xyz"))
            for queue in QUEUES:
                self.main.one(INSERT, queue, *event)

    def overlap(self) -> None:
        """Begin or end a transaction that is in progress at ticks; its events have no key."""
        if self.open:
            end = self.random.choice(["commit", "commit", "rollback"])
            self.both(lambda queue: self.late[queue].run(end))
        else:
            self.count += 1
            self.both(lambda queue: self.late[queue].begin())
            self.both(lambda queue: self.late[queue].one(INSERT, queue, str(self.count), None))
        self.open = not self.open

    def drain(self, consumer: str | None = None) -> None:
        """Let a consumer take all there is; what it does with an event is the same."""
        name = consumer or self.random.choice(CONSUMERS)
        self.delivered += sum(self.both(lambda queue: self._drained(queue, name)).values())

    def _drained(self, queue: str, consumer: str) -> Counter[str]:
        found: Counter[str] = Counter()
        takes = TAKE[self.mode]
        while batches := [b for take in takes if (b := self.main.one(take, queue, consumer))]:
            for batch in dict.fromkeys(batches):
                events = self.main.all(EVENTS, batch)
                for event in events:
                    found[event[2]] += 1
                    self._handle(queue, consumer, batch, event)
                assert self.main.finish(batch) == 1
        return found

    def _handle(self, queue: str, consumer: str, batch: int, event: tuple[Any, ...]) -> None:
        number, txid, data = event
        self.given[queue, consumer, data] += 1
        times = self.given[queue, consumer, data]
        fate = Random(f"{self.seed} {consumer} {data} {times}").random()
        if fate < 0.1:
            self.main.one(RETRY, batch, number, txid)
        elif fate < 0.2:
            self.main.one(DEAD, batch, number, txid)
        elif fate < 0.3 and self.mode != "shared":
            self.main.one(PARK, batch, number, txid, data)

    def cancel(self) -> None:
        """Cancel events, for all or for one."""
        known = range(max(1, self.count - 15), self.count + 1)
        ids = self.random.sample(known, min(len(known), 3))
        query, *args = self.random.choice([(CANCEL,), *((SKIP, name) for name in CONSUMERS)])
        told = [self.main.all(query, queue, *args, ids) for queue in QUEUES]
        apart = self.hidden | {(event, name) for event in ids for name in self.sought}
        one, other = ({row for row in rows if row[:2] not in apart} for rows in told)
        assert one == other
        self.hidden |= {row[:2] for rows in told for row in rows if row[2] == "cancelled"}

    def move(self) -> None:
        """Let retried and parked events come; each of these has a key of its own.

        The order of a batch would decide which events follow a parked one, and a repair makes one
        batch of several.
        """
        if self.random.random() < 0.3:
            self.main.run("update pgq.parked set park_after = now()")
        self.main.run("update pgq.retry_queue set ev_retry_after = now()")
        while self.main.one("select pgq.maint_retry_events()"):
            pass

    def revive(self) -> None:
        """Revive the dead events of a consumer."""
        name = self.random.choice(CONSUMERS)
        query = "select array_agg(e) from pgq.revive_dead_events(%s, %s) e"
        self.both(lambda queue: self.main.one(query, queue, name))

    def seek(self) -> None:
        """Move a consumer to a tick that both queues have."""
        ticks = [{row[0] for row in self.main.all(TICKS, queue)} for queue in QUEUES]
        place, discard = self.random.choice(sorted(ticks[0] & ticks[1])), self.random.random() < 0.3
        name = self.random.choice(CONSUMERS)
        self.sought.add(name)
        self.both(lambda queue: self.main.one(SEEK, queue, name, place, discard))

    def rotate(self) -> None:
        """Rotate, and forget cancellations that are out of reach."""
        for queue in QUEUES:
            self.main.rotate(queue)
        self.main.one("select pgq.maint_skipped_events()")

    def repair(self) -> None:
        """Repair the second queue, unless somebody inserts."""
        if not self.open:
            self.main.one("select pgq.repair_queue('b')")
            self.repairs += 1

    def change(self) -> None:
        """Change the number of lanes, unless an earlier change goes on."""
        name, lanes = self.random.choice(CONSUMERS), self.random.randint(1, 4)
        self.drain(name)
        self.both(
            lambda queue: self.main.one(
                "select pgq.set_lanes(%s, %s, %s, 'extra1')", queue, name, lanes
            )
        )
        self.drain(name)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 6])
@pytest.mark.parametrize("mode", TAKE)
def test_repair_changes_nothing_that_a_consumer_gets(db: Database, mode: str, seed: int) -> None:
    story = Story(db, mode, seed)
    for _ in range(STEPS):
        story.step()
    if story.open:
        story.overlap()
    for _ in range(3):
        story.move()
        story.both(story.main.tick)
        for consumer in CONSUMERS:
            story.drain(consumer)
    assert story.repairs > 0
    assert story.delivered > STEPS // 2
