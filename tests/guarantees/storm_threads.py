"""Those who work beside the storm's processes: two consumers, a reader of ranges, an operator.

They write what they do into tables of the queue's database, in the transaction that does it. The
numbers in `seq` are taken while a consumer is locked, so they are the order of what happened to it.
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg

from tests.guarantees.sessions import Session

if TYPE_CHECKING:
    from random import Random
    from threading import Event

SETUP = """
    create sequence story;
    create table marker (kind text, data text, ev_id bigint, dedup_key text, is_new boolean,
        seq bigint default nextval('story'));
    create table effect (data text, seq bigint default nextval('story'));
    create table seen (consumer text, prev bigint, tick bigint,
        seq bigint default nextval('story'));
    create table sought (consumer text, tick bigint, seq bigint default nextval('story'));
    create table told (call bigint, ev_id bigint, consumer text, state text,
        seq bigint default nextval('story'));
    create table revived (ev_id bigint);
    create table reading (prev bigint, tick bigint, ids bigint[]);
    create table known (ev_id bigint, ev_time timestamptz, data text, key text, tick bigint);
"""
PAUSE = 0.02  # seconds between two steps
AGAIN = {"40001", "40P01", "55P03", "57014"}  # collisions
GONE = {"PQ016", "PQ005"}  # what a range or a tick may be
NEXT = "select batch_id, prev_tick_id, cur_tick_id from pgq.next_batch_info('q', %s)"
BATCH = "select ev_id from pgq.get_batch_events(%s) order by 1"
RANGE = "select ev_id from pgq.get_tick_events('q', %s, %s) order by 1"
SHARE = "select pgq.tick_event_sql('q', %s, %s)"
DETACHED = """
    select is_live from pgq.get_stalled_info()
     where consumer_name = %s and detached is not null"""
HIDDEN = "select ev_id from told where consumer = %s and state = 'cancelled'"
READ = b"""
    with events as (
        select * from pgq.get_tick_events('q', %(prev)s, %(tick)s)
    ), noted as (
        insert into known select ev_id, ev_time, ev_data, ev_extra1,
            %(tick)s from events)
    insert into reading
    select %(prev)s, %(tick)s, coalesce(array_agg(ev_id), '{}') from events"""
POSITION = "select last_tick from pgq.get_consumer_info('q', %s)"
NEWEST = """
    select marker.ev_id from marker where is_new and ev_id is not null order by seq desc limit 40
"""
TELL = """
    insert into told (call, ev_id, consumer, state)
    select %s, ev_id, consumer_name, state from pgq.{}"""


class Worker:
    """One thread with a session, which is opened again when the server was away."""

    def __init__(self, dsn: str, random: Random, stop: Event) -> None:
        """Work until the event is set."""
        self.dsn, self.random, self.stop = dsn, random, stop

    def run(self) -> None:
        """Make steps, until it is told to stop."""
        while not self.stop.is_set():
            try:
                with closing(Session(self.dsn)) as session:
                    session.run("set lock_timeout = '2s'")
                    self.begin(session)
                    while not self.stop.is_set():
                        if not self._try(session):
                            self.stop.wait(PAUSE)
            except psycopg.OperationalError:  # the server is away
                self.stop.wait(PAUSE)

    def _try(self, session: Session) -> bool:
        try:
            return self.step(session)
        except psycopg.Error as error:
            if error.sqlstate not in AGAIN:
                raise
            session.rollback()
            return False

    def begin(self, session: Session) -> None:
        """Find out where it was, on a new session."""

    def step(self, session: Session) -> bool:
        """Do something; return whether to go on at once."""
        raise NotImplementedError


class Reading(Worker):
    """Reads every range of ticks as it comes, without a subscription, and old ones again."""

    repeated = 0

    def begin(self, session: Session) -> None:
        """Find the last reading: what was not committed did not happen."""
        self.last = session.one("select max(tick) from reading") or session.one(
            "select min(tick_id) from pgq.get_tick_info('q')"
        )

    def step(self, session: Session) -> bool:
        """Read what is new, and something old."""
        newest = session.one("select max(tick_id) from pgq.get_tick_info('q')")
        if newest > self.last:
            session.connection.execute(READ, {"prev": self.last, "tick": newest})
            self.last = newest
        self.read_again(session)
        return False

    def read_again(self, session: Session, place: tuple[int, int] | None = None) -> None:
        """Read a range of several readings, whole or as a query; all of it is as it was."""
        ticks = [row[0] for row in session.all("select tick from reading order by tick")]
        if len(ticks) < 2:
            return
        first, last = place or sorted(self.random.sample(ticks, 2))
        session.begin()
        try:
            if self.random.random() < 0.5:
                rows = session.all(RANGE, first, last)
            else:
                query = session.one(SHARE, first, last)
                rows = session.all(f"select ev_id from ({query}) e order by 1")
        except psycopg.Error as error:
            session.rollback()
            if error.sqlstate not in GONE:
                raise
            return
        session.commit()
        had = "select unnest(ids) from reading where prev >= %s and tick <= %s order by 1"
        assert rows == session.all(had, first, last), f"range {first} to {last} has changed"
        self.repeated += 1


class Turns(Worker):
    """A consumer that takes and finishes each batch in one transaction."""

    name = "seeker"

    def step(self, session: Session) -> bool:
        """Take a batch if there is one: all of its range but what was cancelled before."""
        return self.take(session)

    def take(self, session: Session) -> bool:
        """Take a batch if there is one."""
        session.begin()
        ((batch, prev, tick),) = session.all(NEXT, self.name)
        if batch is not None:
            found = session.all(BATCH, batch)
            hidden = set(session.all(HIDDEN, self.name))
            history = session.all(RANGE, prev, tick)
            expected = [row for row in history if row not in hidden]
            assert found == expected, f"{self.name}: batch {prev} to {tick}"
            insert = "insert into seen (consumer, prev, tick) values (%s, %s, %s)"
            session.connection.execute(insert.encode(), [self.name, prev, tick])
            assert session.finish(batch) == 1
        session.commit()
        return batch is not None


class Sleeper(Turns):
    """A consumer that works for some batches, and sleeps until it was detached."""

    name = "sleeper"
    awake, woken = 5, 0
    sleeps = True
    oversleeps = False  # until events are gone

    def step(self, session: Session) -> bool:
        """Work while it is awake; go on when it was detached."""
        if self.awake > 0 or not self.sleeps:
            try:
                took = self.take(session)
            except psycopg.Error as error:
                if error.sqlstate != "PQ024":
                    raise
                session.rollback()
                self.wake(session)
                return True
            self.awake -= took
            return took
        live = session.one(DETACHED, self.name)  # null: not detached
        if live is False or (live and not self.oversleeps):
            self.wake(session)
        return False

    def wake(self, session: Session) -> None:
        """Be attached again: where it was, or from the earliest tick that is left."""
        call = "select pgq.reattach_consumer('q', %s, %s)"
        session.begin()
        try:
            session.one(call, self.name, False)
        except psycopg.Error as error:
            session.rollback()
            if error.sqlstate != "PQ016":
                raise
            session.begin()
            session.one(call, self.name, True)
        note_place(session, self.name)
        session.commit()
        self.awake = self.random.randint(3, 8)
        self.oversleeps = self.random.random() < 0.5
        self.woken += 1


def note_place(session: Session, consumer: str) -> None:
    """Write down where a consumer was moved to."""
    insert = "insert into sought (consumer, tick) values (%s, %s)"
    session.connection.execute(insert.encode(), [consumer, session.one(POSITION, consumer)])


class Operator(Worker):
    """Cancels, skips, seeks and revives."""

    calls = 0

    def begin(self, session: Session) -> None:
        """Forget nothing: events that are cancelled are kept with the time of the answer."""
        self.hidden: dict[tuple[int, str], float] = getattr(self, "hidden", {})

    def step(self, session: Session) -> bool:
        """Do one thing."""
        action = self.random.choices(
            (self.cancel, self.skip, self.seek, self.revive), (6, 3, 2, 1)
        )[0]
        try:
            action(session)
        except psycopg.Error as error:
            if error.sqlstate not in ("PQ021", *GONE):
                raise
            session.rollback()
        return False

    def cancel(self, session: Session) -> None:
        """Cancel some of the newest events."""
        self._hide(session, "cancel_event('q', %s::bigint[])")

    def skip(self, session: Session) -> None:
        """Skip some of the newest events for one consumer."""
        name = self.random.choice(("effects", "seeker", "sleeper"))
        self._hide(session, "skip_event('q', %s, %s::bigint[])", name)

    def _hide(self, session: Session, call: str, *args: Any) -> None:
        newest = [row[0] for row in session.all(NEWEST)]
        ids = self.random.sample(newest, min(len(newest), self.random.randint(1, 4)))
        self.calls += 1
        session.begin()
        session.connection.execute(TELL.format(call).encode(), [self.calls, *args, ids])
        told = session.all("select ev_id, consumer, state from told where call = %s", self.calls)
        session.commit()
        for event, consumer, state in told:
            if state == "cancelled":
                self.hidden.setdefault((event, consumer), time.monotonic())

    def seek(self, session: Session) -> None:
        """Move the seeker to a tick that is left."""
        ticks = [row[0] for row in session.all("select tick_id from pgq.get_tick_info('q')")]
        session.begin()
        discard = self.random.random() < 0.5
        call = "select tick_id from pgq.seek_consumer('q', 'seeker', %s, %s)"
        session.one(call, self.random.choice(ticks), discard)
        note_place(session, "seeker")
        session.commit()

    def revive(self, session: Session) -> None:
        """Let dead events be tried again."""
        session.run(
            "insert into revived select ev_id from pgq.revive_dead_events('q', 'letters') ev_id"
        )
