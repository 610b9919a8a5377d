"""The state machine: sessions interleaved at random, compared with the model after every step."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from psycopg.errors import SerializationFailure

from tests.guarantees.machine_runs import RunMachine
from tests.guarantees.model import Copy, Model, Transaction
from tests.guarantees.sessions import ISOLATIONS, RC, SERIALIZABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.guarantees.test_machine import MachineDatabase

SESSIONS = 3
CONSUMERS = ("c", "second")
PREPARED = ("p0", "p1")
THEN = ("commit", "deliver", "nothing")
LAST_ID = "select event_seq from pgq.ticker_activity() where queue_name = %s"
KEPT_TICKS = """
    select tick_id from pgq.tick join pgq.queue on queue_id = tick_queue where queue_name = %s
"""
STEPS = ((1, 2), (1, 2), (1,), (2,))  # of a rotation

sessions = st.integers(0, SESSIONS - 1)
maybe_an_index = st.one_of(st.none(), st.integers(0, 5))


class QueueMachine(RunMachine):
    """One queue, three producers, two consumers, and a session that ticks and maintains."""

    db: MachineDatabase  # set by the test
    queues = itertools.count(1)

    @initialize()
    def start(self) -> None:
        """Make a queue of its own for this example."""
        self.queue = f"q{next(self.queues)}"
        self.db.queue(self.queue, consumers=())
        self.main = self.db.main
        self.producers = [self.db.producers[n] for n in range(SESSIONS)]
        self.model = Model()
        self.model.tick()
        self.open: dict[int, Transaction] = {}
        self.prepared: dict[str, Transaction] = {}
        self.tables: dict[int, str] = {}
        self.numbers = itertools.count(1)
        self.main.one("select pgq.register_consumer(%s, %s)", self.queue, CONSUMERS[0])
        self.model.register(CONSUMERS[0])

    def teardown(self) -> None:
        """End what is open, and drop the queue."""
        for session in (self.db.main, *self.db.producers):
            session.run("rollback")
        for name in getattr(self, "prepared", {}):
            self.main.run(f"rollback prepared '{self.queue} {name}'")
        if hasattr(self, "queue"):
            self.main.one("select pgq.drop_queue(%s, true)", self.queue)

    @precondition(lambda self: len(self.open) < SESSIONS)
    @rule(number=sessions, isolation=st.sampled_from(ISOLATIONS), learn=st.booleans())
    def begin(self, number: int, isolation: str, *, learn: bool) -> None:
        """Begin, with a snapshot; learn the table that COPY writes into, for later."""
        number = self._pick(set(range(SESSIONS)) - set(self.open), number)
        self.producers[number].begin(isolation)
        self.open[number] = Transaction()
        if learn:
            self.tables[number] = self.producers[number].current_table(self.queue)

    @rule(number=sessions)
    def insert(self, number: int) -> None:
        """Insert an event, in the session's transaction or on its own."""
        data = f"event {next(self.numbers)}"
        with self._may_collide(number):
            self._inserted(number, Copy(self.producers[number].insert(data, self.queue), data))

    @precondition(lambda self: self.tables)
    @rule(number=sessions, count=st.integers(1, 3))
    def copy(self, number: int, count: int) -> None:
        """COPY into the table that the session learned, however long ago."""
        number = self._pick(self.tables, number)
        datas = [f"copied {next(self.numbers)}" for _ in range(count)]
        with self._may_collide(number):
            self.producers[number].copy(self.tables[number], *datas)
            last = self.main.one(LAST_ID, self.queue)
            for event_id, data in enumerate(datas, last - count + 1):
                self._inserted(number, Copy(event_id, data))

    @contextmanager
    def _may_collide(self, number: int) -> Iterator[None]:
        """Forget a SERIALIZABLE transaction that PostgreSQL rolls back."""
        try:
            yield
        except SerializationFailure:
            assert number in self.open
            self.producers[number].rollback()
            del self.open[number]

    def _inserted(self, number: int, copy: Copy) -> None:
        if number in self.open:
            self.open[number].copies.append(copy)
        else:
            self.model.committed.append(copy)

    @precondition(lambda self: self.open)
    @rule(number=sessions, back=st.one_of(st.none(), st.integers(0, 3)))
    def savepoint(self, number: int, back: int | None) -> None:
        """Set a savepoint, or roll back to one of those there are."""
        number = self._pick(self.open, number)
        session, transaction = self.producers[number], self.open[number]
        if back is None or not transaction.marks:
            session.run(f"savepoint s{len(transaction.marks)}")
            transaction.marks.append(len(transaction.copies))
        else:
            mark = back % len(transaction.marks)
            session.run(f"rollback to s{mark}")
            transaction.rollback_to(mark)

    @precondition(lambda self: self.open)
    @rule(
        number=sessions, end=st.sampled_from(["commit", "commit", "commit", "rollback", *PREPARED])
    )
    def end(self, number: int, end: str) -> None:
        """Commit, roll back, or prepare under one of two names (and commit if it is taken)."""
        number = self._pick(self.open, number)
        with self._may_collide(number):
            if end in PREPARED and end not in self.prepared:
                self.producers[number].run(f"prepare transaction '{self.queue} {end}'")
                self.prepared[end] = self.open.pop(number)
                return
            self.producers[number].run("rollback" if end == "rollback" else "commit")
            transaction = self.open.pop(number)
            if end != "rollback":
                self.model.committed += transaction.copies

    @precondition(lambda self: self.prepared)
    @rule(end=st.sampled_from(["commit", "commit", "rollback"]))
    def end_prepared(self, end: str) -> None:
        """End the transaction that was prepared first."""
        name = next(iter(self.prepared))
        transaction = self.prepared.pop(name)
        self.main.run(f"{end} prepared '{self.queue} {name}'")
        if end == "commit":
            self.model.committed += transaction.copies

    @rule()
    def tick(self) -> None:
        """Tick; an empty tick, too."""
        self.main.tick(self.queue)
        self.model.tick()

    @rule(number=sessions, isolation=st.sampled_from(ISOLATIONS), then=st.sampled_from(THEN))
    def overlap(self, number: int, isolation: str, then: str) -> None:
        """Let a transaction be in progress at a tick that sees a younger one."""
        if number not in self.open:
            self.begin(number, isolation, learn=True)
        self.insert(number)
        self.insert((number + 1) % SESSIONS)
        self.tick()
        if then == "commit" and self.open:
            self.end(number, "commit")
        elif then == "deliver":
            self.deliver(None)

    @rule(retry=maybe_an_index)
    def deliver(self, retry: int | None) -> None:
        """Tick, and let every consumer take all there is."""
        self.tick()
        for name in self.model.consumers:
            self.take(name, RC, retry, "commit")

    @rule(turns=st.integers(1, 4), deliver=st.booleans(), steps=st.sampled_from(STEPS))
    def rotate(self, turns: int, steps: tuple[int, ...], *, deliver: bool) -> None:
        """Rotate, read or unread, several times, and clean up."""
        for _ in range(turns):
            if deliver:
                self.deliver(None)
            if 1 in steps:
                self.main.one("select pgq.maint_rotate_tables_step1(%s)", self.queue)
            if 2 in steps:
                self.main.one("select pgq.maint_rotate_tables_step2()")
        self.main.one("select pgq.maint_ticks(%s)", self.queue)
        self.main.one("select pgq.maint_positions()")

    @rule(ticks=st.booleans(), positions=st.booleans())
    def compact(self, *, ticks: bool, positions: bool) -> None:
        """Compact positions, or ticks, of which some are gone then: batches grow."""
        if positions:
            self.main.one("select pgq.compact_positions()")
        if ticks:
            self.main.one("select pgq.compact_ticks()")
            kept = self.main.all(KEPT_TICKS, self.queue)
            self.model.thin({tick_id - 1 for (tick_id,) in kept})

    @precondition(lambda self: len(self.model.consumers) < len(CONSUMERS))
    @rule()
    def register(self) -> None:
        """Register the second consumer."""
        assert self.main.one("select pgq.register_consumer(%s, %s)", self.queue, CONSUMERS[1]) == 1
        self.model.register(CONSUMERS[1])

    @rule(
        name=st.sampled_from(CONSUMERS),
        isolation=st.sampled_from(ISOLATIONS),
        retry=maybe_an_index,
        part=maybe_an_index,
        end=st.sampled_from(["commit", "commit", "commit", "rollback", "leave open"]),
    )
    def take(
        self, name: str, isolation: str, retry: int | None, end: str, part: int | None = None
    ) -> None:
        """Take all batches: each read twice; the last one's end may roll back, or stay away."""
        name = name if name in self.model.consumers else CONSUMERS[0]
        while self._opened(name):
            self._read_twice(name)
            self._finish_part(name, part)
            last = self.model.consumers[name].open == len(self.model.ticks) - 1
            if last and end == "leave open":
                return
            retries = dict(self.model.consumers[name].retries)
            outcome = "rollback" if last and end == "rollback" else "commit"
            batch = self.main.next(name, self.queue)
            self.main.begin(isolation)
            try:
                self._finish(name, batch, retry, outcome)
            except SerializationFailure:
                assert isolation == SERIALIZABLE
                self.main.rollback()
                outcome = "rollback"
            if outcome == "rollback":
                self.model.consumers[name].retries = retries
                return

    def _finish_part(self, name: str, choice: int | None) -> None:
        """Finish a part that ends at one of the events."""
        copies = self.model.batch(name)
        if not copies or choice is None:
            return
        up_to = copies[choice % len(copies)].id
        batch = self.main.next(name, self.queue)
        assert self.main.one("select pgq.finish_part(%s, %s)", batch, up_to) == 1
        self.model.finish_part(name, up_to)
        self._read_twice(name)

    def _finish(self, name: str, batch: int | None, retry: int | None, end: str) -> None:
        self._retry(name, batch, retry)
        assert self.main.finish(batch) == 1
        self.main.run(end)
        if end == "commit":
            self.model.finish(name)

    def _opened(self, name: str) -> bool:
        batch = self.main.next(name, self.queue)
        assert (batch is not None) == self.model.next(name)
        return batch is not None

    def _read_twice(self, name: str) -> None:
        batch = self.main.next(name, self.queue)
        expected = [(copy.id, copy.data) for copy in self.model.batch(name)]
        for _ in range(2):
            assert [(event.id, event.data) for event in self.main.events(batch)] == expected

    def _retry(self, name: str, batch: int | None, choice: int | None) -> None:
        copies = self.model.batch(name)
        if copies and choice is not None:
            copy = copies[choice % len(copies)]
            new = self.main.one("select pgq.event_retry(%s, %s, 0)", batch, copy.id)
            assert new == self.model.retry(name, copy)

    @rule()
    def maint_retry(self) -> None:
        """Put retried events back."""
        assert self.main.one("select pgq.maint_retry_events()") == self.model.maint_retry()

    @staticmethod
    def _pick(among: Iterable[int], number: int) -> int:
        choices = sorted(among)
        return choices[number % len(choices)]
