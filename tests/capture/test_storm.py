"""Random writers, copies that are killed, rotations, and consumers that have to see each state."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Event
from typing import Any

import pytest
from psycopg.errors import DeadlockDetected, ObjectInUse, SerializationFailure, UniqueViolation

from tests.guarantees.sessions import Database, Session
from tests.support.processes import PythonProcess
from tests.support.waiting import eventually

SECONDS, KEYS, WRITERS = 15, 400, 4
ENV = {"PGQPY_MAINT_PERIOD": "0.3", "PGQPY_POLL_INTERVAL": "0.02", "PGQPY_TICK_INTERVAL": "0.02"}
# Rows of kv move between its partitions; tr is truncated and rewritten.
TABLES = f"""
    create table kv (id int primary key, v text, n int) partition by range (id);
    create table kv1 partition of kv for values from (0) to ({KEYS // 2}) with (fillfactor = 10);
    create table kv2 partition of kv for values from ({KEYS // 2}) to ({KEYS + 1});
    create table tr (id int primary key, v text, n int) with (fillfactor = 10);
    insert into kv select n, 'first', 0 from generate_series(1, {KEYS}) n where n % 3 > 0;
    insert into tr select n, 'first', 0 from generate_series(1, {KEYS}) n where n % 3 > 0;
    select pgq.add_capture('q', 'kv'), pgq.add_capture('q', 'tr');
    select pgq.register_consumer('q', 'm'), pgq.register_shared_consumer('q', 's', 'extra1');
    select pgq.set_consumer_filter('q', 's', '{{"types": ["public.kv.*"]}}')"""
UPSERT = "insert into {t} values ({k}, '{x}', 0) on conflict (id) do update set v = '{x}'"
MERGE = """
    merge into {t} using (select {k} as id) s on s.id = {t}.id
    when matched then update set v = '{x}' when not matched then insert values ({k}, '{x}', 0)"""
CHANGES = (
    UPSERT,
    MERGE,
    "update {t} set v = '{x}', n = n + 1 where id between {k} and {k} + 3",
    "update {t} set v = '{x}' where id = {k}",
    "delete from {t} where id = {k}",
    "update {t} set id = {other}, v = '{x}' where id = {k}",
    "savepoint a; update {t} set v = 'undone' where id = {k}; rollback to a",
)
RARE = ("truncate tr", "alter table tr alter n type bigint", "alter table tr alter n type int")
BATCH = "select batch_id from pgq.next_batch_custom('q', %s, null, %s, null)"
EVENTS = "select ev_id, ev_txid, ev_type, ev_data, ev_extra1 from pgq.get_batch_events(%s)"
END = "select tick_snapshot::text from pgq.tick join pgq.get_batch_info(%s) using (tick_id)"
RECEIVE = "select token, ev_id, ev_type, ev_data, ev_extra1 from pgq.receive('q', 's', %s, '1 min')"
DONE = "select pgq.done('q', 's', %s, %s)"
ROWS = """
    select 'public.kv', id::text, row_to_json(kv)::text from kv
    union all select 'public.tr', id::text, row_to_json(tr)::text from tr"""
State = dict[tuple[str, str], str]  # rows, by table and key


def play(state: State, kind: str, data: str | None, key: str | None) -> None:
    """Apply an event."""
    table, _, change = kind.rpartition(".")
    if change == "truncate":
        for each in [each for each in state if each[0] == table]:
            del state[each]
    elif change == "delete":
        state.pop((table, str(key)), None)
    else:
        state[table, str(key)] = str(data)


def sees(snapshot: str, txid: int) -> bool:
    """Say whether a snapshot sees a transaction."""
    least, most, running = snapshot.split(":")
    return txid < int(least) or (txid < int(most) and str(txid) not in running.split(","))


class Storm:
    """All that runs, and what the consumers have seen."""

    def __init__(self, db: Database, seed: str) -> None:
        """Make the tables."""
        self.db, self.seed = db, seed
        self.stop, self.written = Event(), Event()
        self.copied_at: int | None = None  # the first transaction after the first copy
        self.copies = self.kills = 0
        self.events: dict[int, list[Any]] = {}
        self.seen: list[tuple[str, State]] = []  # snapshots of ticks, and the states then
        self.received: list[tuple[Any, ...]] = []  # by the shared consumer, in this order
        db.main.run(TABLES)
        self.first = self.rows()

    def rows(self) -> State:
        """Return what is in the tables."""
        return {(table, key): data for table, key, data in self.db.main.all(ROWS)}

    def write(self, number: int) -> None:
        """Write in random transactions."""
        chance = random.Random(f"{self.seed} {number}")
        with closing(Session(self.db.dsn)) as session:
            while not self.stop.wait(chance.random() * 0.01):
                try:
                    self._write(session, chance, f"'writer {number}'")
                except (UniqueViolation, DeadlockDetected, SerializationFailure, ObjectInUse):
                    session.rollback()

    def _write(self, session: Session, chance: random.Random, gid: str) -> None:
        session.run("begin")
        for _ in range(chance.randint(1, 5)):
            change = chance.choice(CHANGES) if chance.random() < 0.98 else chance.choice(RARE)
            key, other = chance.randint(1, KEYS), chance.randint(1, KEYS)
            table = chance.choice(("kv", "tr"))
            session.run(change.format(t=table, k=key, x=chance.random(), other=other))
            self.stop.wait(chance.random() * 0.005)
        end = chance.choice(("commit", "commit", "commit", "rollback"))
        if chance.random() < 0.2:
            session.run(f"prepare transaction {gid}")
            self.stop.wait(chance.random() * 0.02)
            end = f"{end} prepared {gid}"
        session.run(end)

    def copy(self, number: int) -> None:
        """Copy the tables again and again; kill half of the copies."""
        chance = random.Random(f"{self.seed} copy {number}")
        command = ("-m", "pgqpy", "capture", "snapshot", "public.kv", "public.tr")
        while not self.stop.is_set():
            with closing(PythonProcess(*command, env={"PGQPY_DSN": self.db.dsn})) as process:
                if self.copied_at is not None and chance.random() < 0.5:
                    self.stop.wait(chance.random() / 2)
                    process.kill()
                    self.kills += 1
                    continue
                assert process.wait(60) == 0, process.output()
            with closing(Session(self.db.dsn)) as session:
                self.copied_at = self.copied_at or int(session.one("select txid_current()"))
            self.copies += 1

    def tick(self) -> None:
        """Run a ticker, which is killed every now and then."""
        chance = random.Random(f"{self.seed} tick")
        ticker = ("-m", "pgqpy", "ticker", "run", "--dsn", self.db.dsn)
        while not self.stop.is_set():
            with closing(PythonProcess(*ticker, env=ENV)):
                self.stop.wait(1 + chance.random() * 3)

    def read(self, name: str, least: int) -> None:
        """Read batches of at least so many events; note the state at the end of each."""
        state: State = {}
        with closing(Session(self.db.dsn)) as session:
            for batch in self._all(lambda: session.one(BATCH, name, least)):
                for event_id, txid, *event in session.all(EVENTS, batch):
                    self.events[event_id] = [txid, *event]
                    play(state, *event)
                self.seen.append((session.one(END, batch), state.copy()))
                session.finish(batch)

    def receive(self, limit: int) -> None:
        """Work for the shared consumer."""
        with closing(Session(self.db.dsn)) as session:
            for rows in self._all(lambda: session.all(RECEIVE, limit)):
                self.received += [row[1:] for row in rows]
                session.one(DONE, rows[0][0], [row[1] for row in rows])

    def _all(self, take: Callable[[], Any]) -> Iterator[Any]:
        """Yield what there is, until nothing is left of what was written."""
        while True:
            written = self.written.is_set()
            if found := take():
                yield found
            elif written:
                return
            else:
                self.written.wait(0.005)

    def run(self) -> None:
        """Run everything."""
        with ThreadPoolExecutor(16) as pool:
            made = [pool.submit(self.write, number) for number in range(WRITERS)]
            made += [pool.submit(self.copy, 1), pool.submit(self.copy, 2), pool.submit(self.tick)]
            taken = [pool.submit(self.receive, 1), pool.submit(self.receive, 20)]
            taken += [pool.submit(self.read, "c", 0), pool.submit(self.read, "m", 500)]
            try:
                self.stop.wait(SECONDS)
                eventually(lambda: self.copies > 2 and self.kills > 2, 60)
                self.stop.set()
                for each in made:
                    each.result(timeout=60)
                self.db.main.tick()
            finally:
                self.stop.set()
                self.written.set()
            for each in taken:
                each.result(timeout=60)

    def judge(self) -> int:
        """Compare the states that were seen with the tables'; return how many."""
        events = [self.events[each] for each in sorted(self.events)]
        by_id: State = {}
        for _, *event in events:
            play(by_id, *event)
        assert by_id == self.rows()
        changes = [each for each in events if not each[1].endswith(".snapshot")]
        self._judge_received(by_id)
        assert self.copied_at is not None
        full = [each for each in self.seen if sees(each[0], self.copied_at)]
        for snapshot, state in full:
            known = self.first.copy()
            for txid, *change in changes:
                if sees(snapshot, txid):
                    play(known, *change)
            assert state == known, snapshot
        return len(full)

    def _judge_received(self, final: State) -> None:
        """See that no row came behind a change that it lacks."""
        rows = [(each, *self.events[each][1:]) for each in sorted(self.events)]
        made = {each[2:]: each[0] for each in rows if each[1].endswith((".insert", ".update"))}
        state, newest = State(), dict[str, int]()
        for event_id, kind, data, key in self.received:
            play(state, kind, data, key)
            if kind.endswith(".snapshot"):
                assert made.get((data, key), 0) >= newest.get(key, 0), (key, data)
            else:
                newest[key] = event_id
        assert state == {each: final[each] for each in final if each[0] == "public.kv"}


@pytest.mark.slow
def test_consumers_see_the_state_of_the_tables_at_each_tick(
    db: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    if db.main.connection.info.server_version < 150000:
        return  # PostgreSQL 14 has no MERGE
    seed = os.environ.get("PGQPY_STORM_SEED", str(random.randrange(10**6)))
    with capsys.disabled():
        print(f" PGQPY_STORM_SEED={seed} ", end="")  # noqa: T201  # to repeat it
    storm = Storm(db, seed)
    storm.run()
    assert storm.judge() > 20
