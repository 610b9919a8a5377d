"""A random story of a consumer with lanes: what its runs, its administrator and the ticker do.

The keys in extra2 are groups of those in extra1. So the events of a key in extra1 keep their order,
whichever of the two the lanes have.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from tests.guarantees.lanes import SET, Run

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

INSERT = "select pgq.insert_event('q', 't', %s, %s, %s, null, null)"
READ = """
    select ev_id, ev_txid, ev_extra1, pos_last_tick, pos_next_tick
      from pgq.current_position cross join pgq.get_batch_events(pos_batch) where pos_batch = %s
     order by ev_id, ev_txid
"""
RETRY = "select pgq.event_retry(%s, array[%s::bigint], array[%s::bigint], array[interval '0'])"
DEAD = "select pgq.event_dead(%s, array[%s::bigint], array[%s::bigint], array['why'::text])"
REVIVE = "select count(*) from pgq.revive_dead_events('q', 'c')"
OPEN = "select array_agg(pos_batch) from pgq.current_position where pos_batch is not null"
LEFT = "select (select count(*) from pgq.retry_queue) + (select count(*) from pgq.dead_event)"
DUTIES = (
    "select pgq.maint_rotate_tables_step1('q')",
    "select pgq.maint_rotate_tables_step2()",
    "select pgq.compact_ticks()",
    "select pgq.compact_positions()",
    "select pgq.maint_ticks('q')",
    "select pgq.maint_positions()",
    "select pgq.maint_retry_events()",
    REVIVE,
)
REFUSALS = ("PQ021", "55P03")  # a change goes on, or a run holds a lane's lock
LOST = ("PQ003", "55P03")  # another run has the batch, or finishes it


class Given(NamedTuple):
    """An event of a batch, as a run has read it."""

    id: int
    txid: int
    key: str | None
    after: int  # the ticks of the batch
    until: int


class Finished(NamedTuple):
    """A delivery that was finished, and what became of the event."""

    event: Given
    done: bool  # neither retried nor dead


class Teller(Run):
    """A run with what it has read of its batch, and what it finished in an open transaction."""

    batch: int | None = None
    events: list[Given]  # type: ignore[assignment]  # not a method here
    open: list[Finished] | None = None

    def read(self, batch: int | None) -> None:
        """Note a batch and its events."""
        self.batch = batch
        rows = self.session.all(READ, batch) if batch is not None else []
        self.events = [Given(*row) for row in rows]


class Story:
    """Runs that come and go, producers that overlap, changes of the lanes, duties of the ticker."""

    def __init__(self, db: Database, seed: int) -> None:
        self.random = Random(seed)  # a story that can be told again
        self.db, self.main = db, db.main
        self.producers: dict[Session, list[int]] = {db.open(): [] for _ in range(3)}
        self.runs = [Teller(db.open(), f"host:{number}:x") for number in range(3)]
        self.txids: dict[int, int] = {}  # of each event: a retried or revived copy has another
        self.committed: list[int] = []
        self.ticks: dict[int, int] = {}  # of each event: the first tick that sees it
        self.finished: list[Finished] = []
        self.changes = 0
        for session in (self.main, *(run.session for run in self.runs)):
            session.run("set lock_timeout = '20ms'")

    def produce(self) -> None:
        """Insert an event, or end the transaction of a producer."""
        session = self.random.choice(list(self.producers))
        if not session.connection.info.transaction_status:
            session.begin()
        if self.random.random() < 0.3:
            self.end_producer(session, "commit" if self.random.random() < 0.8 else "rollback")
            return
        number = self.random.randrange(11)
        keys = (f"key {number}", f"group {number % 3}") if number else (None, None)
        event = session.one(INSERT, "x", *keys)
        self.txids[event] = session.one("select txid_current()")
        self.producers[session].append(event)

    def end_producer(self, session: Session, how: str) -> None:
        """End the transaction of a producer."""
        session.run(how)
        self.committed += self.producers[session] if how == "commit" else []
        self.producers[session].clear()

    def tick(self) -> None:
        """Tick, and note what the tick sees."""
        number = self.main.tick()
        for each in self.committed:
            self.ticks.setdefault(each, number)

    def take(self, run: Teller) -> None:
        """Take a batch; no other open batch has one of its keys."""
        run.read(run.take())
        batches = self.main.one(OPEN) or []
        held = [each.events for each in self.runs if each.batch in batches]
        keys = [{event.key for event in events} - {None} for events in held]
        assert sum(map(len, keys)) == len(set[Any]().union(*keys)), "a key is in two open batches"

    def finish(self, run: Teller, *, whole: bool = False) -> None:
        """Finish the batch of a run, or a part of it; the transaction may stay open."""
        part = run.events
        if not whole and self.random.random() < 0.3:
            part = part[: self.random.randint(1, 3)]
        run.session.begin()
        told = []
        try:
            for event in part:
                call = None if whole else self.random.choice([None] * 6 + [RETRY, DEAD])
                told.append(Finished(event, call is None))
                if call is not None:
                    run.session.one(call, run.batch, event.id, event.txid)
            if len(part) == len(run.events):
                done = run.session.finish(run.batch)
            else:
                call = "select pgq.finish_part(%s, %s)"
                done = run.session.one(call, run.batch, part[-1].id)
        except psycopg.Error as error:
            assert error.sqlstate in LOST, error  # noqa: PT017  # the others are raised
            done = 0
        run.open = told if done else []
        if not done or whole or self.random.random() < 0.7:
            self.end_finish(run, "commit" if done else "rollback")

    def end_finish(self, run: Teller, how: str) -> None:
        """End the transaction in which a run finishes."""
        run.session.run(how)
        ids = {each.event.id for each in run.open or []}
        if how == "commit":
            self.finished += run.open or []
            run.events = [event for event in run.events if event.id not in ids]
        if not run.events or not ids:
            run.batch, run.events = None, []
        run.open = None

    def work(self, run: Teller) -> None:
        """Let a run do what comes next: take, finish, or die."""
        chance = self.random.random()
        if run.open is not None:
            self.end_finish(run, "commit" if chance < 0.8 else "rollback")
        elif chance < 0.1:
            run.die()
        elif chance < 0.2:
            run.come_back()
            self.take(run)
        elif run.batch is None:
            self.take(run)
        else:
            self.finish(run)

    def change(self) -> None:
        """Change the number of lanes, or their key."""
        lanes, key = self.random.randint(1, 6), self.random.choice(["extra1", "extra1", "extra2"])
        try:
            self.changes += self.main.one(SET, lanes, key)
        except psycopg.Error as error:
            assert error.sqlstate in REFUSALS, error  # noqa: PT017  # the others are raised

    def step(self) -> None:
        """Do something."""
        chance = self.random.random()
        if chance < 0.4:
            self.produce()
        elif chance < 0.5:
            self.tick()
        elif chance < 0.9:
            self.work(self.random.choice(self.runs))
        elif chance < 0.93:
            self.change()
        else:
            self.main.one(self.random.choice(DUTIES))

    def end(self) -> None:
        """End all transactions, and let a new run take all there is."""
        for session in self.producers:
            self.end_producer(session, "commit")
        for run in self.runs:
            if run.open is not None:
                self.end_finish(run, "commit")
            run.die()
        last = Teller(self.db.open(), "host:last:x")
        self.runs.append(last)
        for _ in range(4):
            self.main.one(REVIVE)
            self.main.one("select pgq.maint_retry_events()")
            self.tick()
            self.take(last)
            while last.batch is not None:
                self.finish(last, whole=True)
                self.take(last)
