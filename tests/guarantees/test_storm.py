"""Every feature in use at once, while processes and the server are killed: G1 to G9 hold.

The seed decides what happens in which order; set PGQPY_STORM_SEED to see a story again.
"""

from __future__ import annotations

import os
import random
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from pgqpy.install import install
from tests.guarantees.history import read_transactions
from tests.guarantees.sessions import Database
from tests.guarantees.storm_judge import Judge, read_handled
from tests.guarantees.storm_load import FILES
from tests.guarantees.storm_threads import SETUP, Operator, Reading, Sleeper, Turns, Worker
from tests.support.crash import ask, kill_backend, kill_server
from tests.support.tree import ROOT
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgqpy.testing import EmbeddedServer
    from tests.support.processes import PythonProcess

LOAD = str(Path(__file__).with_name("storm_load.py"))
CONSUMERS = ("effects", "seeker", "sleeper")
PROCESSES = ("produce 1", "produce 2", "letters 1", "letters 2", "effects 1")
DAEMONS = ("ticker 1", "ticker 2")
ARCHIVE = "archive 1"  # begins in the middle: before, an event may be cancelled for all who read it
ENV = {"PGQPY_MAINT_PERIOD": "0.3", "PGQPY_RETRY_PERIOD": "0.1"}
ENV |= {"PGQPY_POLL_INTERVAL": "0.02", "PGQPY_TICK_INTERVAL": "0.03"}
QUEUE = {"rotation_period": "500 milliseconds", "retention": "3 seconds"}
POLICY = "select pgq.set_stall_policy('q', 'sleeper', 'detach', '1 second')"
ENTRIES, MISSED = 5, 20  # cron entries, and how many times of each are due at the beginning
ADD_CRON = """
    select pgq.add_cron('e' || n, 'q', 't', 'cron ' || n, '* * * * *', i_missed => 'all')
      from generate_series(1, %s) n"""
PLAN_CRON = "update pgq.cron set cron_next = date_trunc('minute', now()) - %s * interval '1 min'"
STEP = 25  # events that are handled between two faults
RECOVERY = 180  # seconds
AT_REST = """
    select (select count(*) from pgq.retry_queue), (select count(*) from pgq.inflight),
           (select count(*) from pgq.delayed_event),
           (select count(*) from pgq.current_position where pos_batch is not null),
           (select count(*) from pgq.registration where sub_detached is not null),
           (select count(*) from pg_locks
             where relation = 'pgq.event_1_id_seq'::regclass and mode = 'RowExclusiveLock'),
           (select count(*)
              from pgq.event_1 join (
                    select pos_last_tick as at_tick, pos_pins is null as has_own
                      from pgq.current_position
                    union all select max(tick), false from reading) reader
                on has_own or ev_owner is null  -- the archive does not read what is delivered again
              join pgq.tick on tick_id = at_tick
             where not txid_visible_in_snapshot(ev_txid, tick_snapshot))
"""


class Storm:
    """All that runs, and what happens to it."""

    def __init__(
        self,
        server: EmbeddedServer,
        spawn: Callable[..., PythonProcess],
        folder: Path,
        chance: random.Random,
    ) -> None:
        """Make the queue, and start them all."""
        self.server, self.dsn, self.spawn, self.folder = server, server.dsn(), spawn, folder
        self.chance = chance
        self.threads: list[Future[None]] = []
        self._prepare()
        self.processes = {name: self._start(name) for name in (*PROCESSES, *DAEMONS)}

    def _prepare(self) -> None:
        with closing(Database(self.dsn)) as db:
            install(db.main.connection)
            db.queue(consumers=CONSUMERS, **QUEUE)
            db.main.run(SETUP)
            db.main.one("select pgq.register_shared_consumer('q', 'letters', 'extra1')")
            db.main.one(POLICY)
            db.main.all(ADD_CRON, ENTRIES)
            db.main.connection.execute(PLAN_CRON.encode(), [MISSED])

    def _start(self, name: str) -> PythonProcess:
        role = name.partition(" ")[0]
        if role == "ticker":
            return self.spawn("-m", "pgqpy", "ticker", "run", "--dsn", self.dsn, env=ENV)
        log = self.folder / f"{name} {time.monotonic_ns()}"
        log.touch()
        return self.spawn(LOAD, role, self.dsn, str(log), env={"PYTHONPATH": str(ROOT)})

    def logs(self, role: str) -> list[Path]:
        """Return what the processes of a role have written."""
        return [path for path in self.folder.iterdir() if path.name.startswith(role)]

    def revive(self) -> None:
        """Start those again that ended because the server was away, or their predecessor lives.

        Raises the error of a thread that has ended.
        """
        for thread in self.threads:
            if thread.done() and (error := thread.exception()):
                raise RuntimeError(error) from error  # `eventually` would go on
        for name, process in list(self.processes.items()):
            if process.popen.poll() is not None:
                output = process.output()
                assert "runs already" in output or "ConnectionFailed" in output, output
                self.processes[name] = self._start(name)

    def query(self, query: str) -> list[tuple[Any, ...]]:
        """Ask the server, whatever happens to it."""
        return ask(self.dsn, query, timeout=RECOVERY)

    def progress(self) -> None:
        """Wait until events of all kinds have gone on."""

        def counts() -> tuple[int, ...]:
            lines = sum(path.read_bytes().count(b"\n") for path in self.logs("letters"))
            files = sum(path.read_bytes().count(b"\n") for path in self.logs("archive"))
            files = files if ARCHIVE in self.processes else lines
            ((effects, seen, read),) = self.query(
                "select (select count(*) from effect), (select count(*) from seen where consumer"
                " = 'seeker'), (select count(*) from known)"
            )
            return lines, effects, seen * STEP, read, files * STEP

        before = counts()
        self.wait_for(
            lambda: all(now >= old + STEP for now, old in zip(counts(), before, strict=True))
        )

    def wait_for(self, done: Callable[[], bool]) -> None:
        """Wait, and start again whatever ends meanwhile."""

        def look() -> bool:
            self.revive()
            return done()

        eventually(look, RECOVERY)

    def kill(self, name: str) -> None:
        """Kill a process if it has begun, and start another one."""
        if process := self.processes.get(name):
            process.kill()
        self.processes[name] = self._start(name)

    def crash(self) -> None:
        """Kill the server, or one of its processes, or stop it at once."""
        kind = self.chance.choice(("kill", "backend", "stop"))
        if kind == "backend":
            pids = self.query(
                "select pid from pg_stat_activity where pid <> pg_backend_pid()"
                " and backend_type = 'client backend'"
            )
            kill_backend(self.chance.choice(pids)[0])
            self.query("select 1")
        else:
            (kill_server if kind == "kill" else _stop)(self.server)
            self.server.start()

    def rage(self) -> None:
        """Let each fault happen, in any order."""
        plan = [*PROCESSES, *DAEMONS, ARCHIVE, ARCHIVE, "crash", "crash"]
        self.chance.shuffle(plan)
        for name in plan:
            if name == "crash":
                self.crash()
            else:
                self.kill(name)
            self.progress()

    def come_to_rest(self, operator: Worker, sleeper: Sleeper) -> None:
        """Stop those who insert and cancel, and wait until everything was handled."""
        operator.stop.set()
        self.threads.pop().result(timeout=RECOVERY)
        for name in ("produce 1", "produce 2"):
            self.processes.pop(name).kill()
        sleeper.sleeps = False

        def at_rest() -> bool:
            (left,) = self.query(AT_REST)
            assert not any(left), f"left: {left}"
            return True

        self.wait_for(at_rest)


def _stop(server: EmbeddedServer) -> None:
    server.stop("immediate")


@pytest.fixture
def seed() -> int:
    """Choose the seed of the story."""
    seed = int(os.environ.get("PGQPY_STORM_SEED", "0")) or random.SystemRandom().randrange(1 << 32)
    print(f"PGQPY_STORM_SEED={seed}")  # noqa: T201  # pytest shows it of a test that fails
    return seed


@pytest.mark.slow
def test_all_guarantees_hold_while_every_feature_is_used_and_anything_is_killed(
    own_server: EmbeddedServer,
    spawn: Callable[..., PythonProcess],
    tmp_path: Path,
    seed: int,
) -> None:
    chance = random.Random(seed)
    storm = Storm(own_server, spawn, tmp_path, chance)
    stop, quiet = Event(), Event()
    dsn = storm.dsn
    reading = Reading(dsn, random.Random(chance.random()), stop)
    sleeper = Sleeper(dsn, random.Random(chance.random()), stop)
    seeker = Turns(dsn, random.Random(chance.random()), stop)
    operator = Operator(dsn, random.Random(chance.random()), quiet)
    with ThreadPoolExecutor(4) as pool:
        threads = (reading, sleeper, seeker, operator)
        storm.threads += [pool.submit(each.run) for each in threads]
        try:
            storm.progress()
            storm.rage()
            storm.wait_for(lambda: sleeper.woken > 0)
            storm.come_to_rest(operator, sleeper)
        finally:
            stop.set()
            quiet.set()
        for each in storm.threads:
            each.result(timeout=RECOVERY)
    with closing(Database(dsn)) as db:
        reading.read_again(db.main)
        judge = Judge(db.main)
        transactions = [each for path in storm.logs("produce") for each in read_transactions(path)]
        judge.queue(transactions)
        judge.effects()
        judge.chain("seeker")
        judge.chain("sleeper")
        logs = [read_handled(path) for path in storm.logs("letters")]
        judge.letters(logs, operator.hidden)
        judge.dedup_keys()
        judge.cron(ENTRIES, MISSED)
        judge.archive(str(tmp_path / FILES))
        assert db.main.one("select queue_low_tick > 1 from pgq.queue"), "it rotated"
        assert reading.repeated > 20
        told = {row[0] for row in db.main.all("select distinct state from told")}
        assert told >= {"cancelled", "delivered"}
