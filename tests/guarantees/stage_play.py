"""Producers, tasks that stage, who commits stages, and what is expected of all of them.

One thread plays all parts, so whoever would have to wait for another is not let begin: a writer's
stages are committed by one session at a time, and neither dropped nor given up meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

import psycopg

from tests.guarantees import stages
from tests.guarantees.ranges import EVENTS
from tests.guarantees.sessions import RC, RR

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

WRITERS = ("v", "w")
ROTATION = "select pg_get_functiondef('pgq.maint_rotate_tables_step1(text)'::regprocedure)"
AGED = """
    update pgq.stage set stage_time = '1999-01-01' where stage_writer = %s and stage_epoch = %s"""


@dataclass
class Task:
    """A transaction that inserts: plain, or a stage once it opened one."""

    session: Session
    busy: bool = False
    payloads: list[str] = field(default_factory=list)
    opened: tuple[str, int] | None = None
    stage: int = 0  # the id, once it is one
    gives: bool = False
    txid: int = 0


@dataclass
class Giving:
    """A transaction that commits stages of a writer."""

    session: Session
    writer: str
    txid: int
    stages: list[int]
    payloads: list[str]


@dataclass
class Taker:
    """A consumer, its open batch, and what it was given."""

    session: Session
    name: str
    ranges: list[tuple[int, int, list[stages.Event]]] = field(default_factory=list)
    batch: int | None = None

    def step(self) -> bool:
        """Open a batch, or see that the open one is the same and finish it; say whether."""
        if self.batch is not None:
            assert stages.read(self.session, self.batch) == self.ranges[-1][2]
            assert self.session.finish(self.batch) == 1
            self.batch = None
            return True
        self.batch = self.session.next(self.name)
        if self.batch is None:
            return False
        ends = "select prev_tick_id, tick_id from pgq.get_batch_info(%s)"
        first, last = self.session.all(ends, self.batch)[0]
        events = stages.read(self.session, self.batch)
        assert self.session.all(EVENTS, first, last) == events
        self.ranges.append((first, last, events))
        return True


class Play:
    """A queue that all use at once, by chance; `expected` is what was committed, by whom."""

    def __init__(self, db: Database, seed: int, consumers: tuple[str, ...]) -> None:
        """Begin with sessions that have nothing to do."""
        self.db, self.random, self.number = db, Random(seed), 0
        db.main.run(db.main.one(ROTATION).replace("'900ms'", "'50ms'"))  # it waits in vain here
        self.tasks = [Task(db.open()) for _ in range(4)]
        self.takers = [Taker(db.main, name) for name in consumers]
        self.idle = [db.open() for _ in range(2)]
        self.prepared: dict[str, Task] = {}
        self.epochs = dict.fromkeys(WRITERS, 1)
        self.waiting: dict[str, dict[int, tuple[int, list[str]]]] = {w: {} for w in WRITERS}
        self.giving: dict[str, Giving | Task] = {}
        self.expected: dict[str, int] = {}
        self.given = self.rotations = 0  # stages, and how often

    def run(self, steps: int) -> None:
        """Let chance choose who goes on; then end everything, and let the consumers take all."""
        others = (self.tick, self.rotate, self.take, self.give, self.give)
        seldom = (self.drop, self.give_up, self.end_prepared)
        for _ in range(steps):
            self.number += 1
            self.random.choice((*(self.work,) * 14, *others * 2, *seldom))()
        for task in self.tasks:
            if task.busy:
                self.end(task, "commit")
        for giver in [each for each in self.giving.values() if isinstance(each, Giving)]:
            self.end_giving(giver, "commit")
        while self.prepared:
            self.end_prepared()
        self.tick()
        while sum(taker.step() for taker in self.takers):
            pass

    def tick(self) -> None:
        """Cut here."""
        self.db.main.tick()

    def rotate(self) -> None:
        """Rotate, if nothing is lost by it; clean up."""
        before = self.db.main.one("select queue_cur_table from pgq.queue")
        self.rotations += self.db.main.rotate() != before
        self.maint()

    def maint(self) -> None:
        """Let maintenance give up stages whose epoch was committed by others."""
        self.db.main.one(stages.MAINT)
        for writer, waiting in self.waiting.items():
            for stage, (epoch, _) in list(waiting.items()):
                if epoch < self.epochs[writer]:
                    del waiting[stage]
        assert self.db.main.one(stages.WAITING) == sum(map(len, self.waiting.values()))

    def take(self) -> None:
        """Let a consumer go on; the first is the fastest."""
        self.random.choice((self.takers[0], *self.takers)).step()

    def work(self) -> None:
        """Let a task go on."""
        task = self.random.choice(self.tasks)
        if not task.busy:
            task.session.begin(self.random.choice((RC, RR)))
            task.busy = True
        actions = (self.insert, self.insert, self.nest, self.open, self.open, self.end, self.end)
        try:
            self.random.choice(actions)(task)
        except psycopg.errors.SerializationFailure:  # whose snapshot is older than the ledger's row
            self.end(task, "rollback")

    def insert(self, task: Task) -> None:
        """Insert an event."""
        task.session.insert(f"{self.number}")
        task.payloads.append(f"{self.number}")

    def nest(self, task: Task) -> None:
        """Insert in a savepoint, open a stage there too if there is none; keep it or not."""
        task.session.run("savepoint s")
        task.session.insert(f"nested {self.number}")
        if self.random.randrange(2):
            task.session.run("release s")
            task.payloads.append(f"nested {self.number}")
            return
        if task.opened is None:
            writer = self.random.choice(WRITERS)
            stages.open_stage(task.session, writer, self.epochs[writer])
        task.session.run("rollback to s")

    def open(self, task: Task) -> None:
        """Make the transaction a stage, or say it again; then perhaps commit it as such."""
        task.opened = task.opened or self.random.choice([*self.epochs.items()])
        writer, epoch = task.opened
        opened = stages.open_stage(task.session, writer, epoch)
        task.stage = opened or task.stage
        if task.gives:
            assert opened is None
        elif opened is None:
            assert epoch < self.epochs[writer]
            self.end(task, "rollback")
        elif not self.random.randrange(12) and writer not in self.giving:
            giver = stages.commit_stage(task.session, opened, writer=writer, epoch=epoch)
            assert giver == task.session.one("select txid_current()")
            task.gives = True
            self.giving[writer] = task

    def end(self, task: Task, how: str = "") -> None:
        """End a task's transaction, or prepare it."""
        how = how or self.random.choice((*["commit"] * 6, "rollback", "prepare"))
        if how != "rollback":
            task.txid = task.session.one("select txid_current()")
        if how == "prepare" and not task.gives:
            task.session.run(f"prepare transaction 'p{self.number}'")
            self.prepared[f"p{self.number}"] = task
        else:
            task.session.run("commit" if how == "prepare" else how)
            self.ended(task, committed=how != "rollback")
        self.tasks[self.tasks.index(task)] = Task(task.session)

    def ended(self, task: Task, *, committed: bool) -> None:
        """Know what became of a task's events."""
        if task.opened and task.gives:
            writer, epoch = task.opened
            del self.giving[writer]
            self.epochs[writer] += committed
        if committed and task.opened and not task.gives:
            writer, epoch = task.opened
            self.waiting[writer][task.stage] = (epoch, task.payloads)
        elif committed:
            self.expected.update(dict.fromkeys(task.payloads, task.txid))

    def end_prepared(self) -> None:
        """End the oldest of the prepared transactions."""
        for gid in [*self.prepared][:1]:
            how = self.random.choice(("commit", "rollback"))
            self.db.main.run(f"{how} prepared '{gid}'")
            self.ended(self.prepared.pop(gid), committed=how == "commit")

    def give(self) -> None:
        """Begin to commit stages of a writer, not all of them perhaps; or end that, in a while."""
        writer = self.random.choice(WRITERS)
        current = self.giving.get(writer)
        if isinstance(current, Giving) and not self.random.randrange(3):
            self.end_giving(current, self.random.choice((*["commit"] * 3, "rollback")))
        epoch = self.epochs[writer]
        theirs = {s: p for s, (e, p) in self.waiting[writer].items() if e == epoch}
        if current is not None or (len(theirs) < 2 and self.random.randrange(9)):
            return
        session = self.idle.pop()
        chosen = [each for each in theirs if self.random.randrange(4)]
        session.begin(self.random.choice((RC, RR)))
        txid = stages.commit_stage(session, *chosen, writer=writer, epoch=epoch)
        assert txid is not None
        payloads = [payload for each in chosen for payload in theirs[each]]
        if not self.random.randrange(3):
            session.insert(f"beside {self.number}")
            payloads.append(f"beside {self.number}")
        self.giving[writer] = Giving(session, writer, txid, chosen, payloads)

    def end_giving(self, giver: Giving, how: str) -> None:
        """Commit the commit of stages, or roll it back: it is said again later."""
        giver.session.run(how)
        self.idle.append(giver.session)
        del self.giving[giver.writer]
        if how == "commit":
            self.epochs[giver.writer] += 1
            self.expected.update(dict.fromkeys(giver.payloads, giver.txid))
            for stage in giver.stages:
                del self.waiting[giver.writer][stage]
            self.given += len(giver.stages)

    def drop(self) -> None:
        """Drop what a writer staged."""
        writer = self.random.choice(WRITERS)
        if writer not in self.giving and not self.random.randrange(4):
            dropped = self.db.main.one(stages.DROP, writer)
            assert dropped == len(self.waiting[writer])
            self.waiting[writer].clear()

    def give_up(self) -> None:
        """Let a day pass for the stages of a writer's epoch."""
        writer = self.random.choice(WRITERS)
        waiting = self.waiting[writer]
        if not waiting or writer in self.giving:
            return
        epoch = min(epoch for epoch, _ in waiting.values())
        self.db.main.connection.execute(AGED, (writer, epoch))
        for stage in [stage for stage, (each, _) in waiting.items() if each == epoch]:
            del waiting[stage]
        self.maint()
