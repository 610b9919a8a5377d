"""64 workers of one consumer and 200 faults: the history is checked when it has come to rest."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pgqpy.install import install
from tests.guarantees.history import Findings, read_transactions
from tests.guarantees.history_workers import Fault, check_workers, read_handled
from tests.guarantees.sessions import Database
from tests.guarantees.swarm import PROCESSES, THREADS
from tests.guarantees.test_faults_kill import AT_REST, ROOT, SETUP, TWICE_OR_NEVER, WORKLOAD
from tests.support.crash import ask, kill_server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pgqpy.testing import EmbeddedServer
    from tests.support.processes import PythonProcess

SWARM = str(Path(__file__).with_name("swarm.py"))
STEP = 200  # bytes of the workers' logs between two faults, about 2 events
STOPS = 16  # of processes, by SIGSTOP
MOST_STOPPED = 4  # at a time
LONGEST_STOP = 15  # seconds
RECOVERY = 60  # seconds
LONGEST = 180  # seconds for all faults; 30 on a machine with nothing else to do
NOBODY, EVERYBODY = "nobody", ""
UNCOUNTED = "a short stop"
RUNNING = """
    select count(*) from pg_locks
     where locktype = 'advisory' and classid::bigint = 7366514 and mode = 'ExclusiveLock'
"""
BUSY = """
    select substr(application_name, 8), pid, sub_id, pos_batch
      from pg_stat_activity join pg_locks l using (pid)
      join pgq.current_position on sub_id = l.objid::bigint and pos_batch is not null
     where application_name like 'worker %' and l.classid::bigint = 7366514 and l.granted
     order by random()
"""
LOST = """
    select pos_holder from pgq.current_position
     where sub_id = %s and pos_batch is distinct from %s
"""
TERMINATE = "select pg_terminate_backend(%s)"
CANCEL = """
    select substr(application_name, 8), pg_cancel_backend(pid) from (
        select application_name, pid from pg_stat_activity
         where application_name like 'worker %' and state = 'active'
         order by wait_event is null, random() limit 1) active
"""
ROTATE = "select pgq.maint_rotate_tables_step1('q')", "select pgq.maint_rotate_tables_step2()"
TABLE = "select queue_cur_table from pgq.queue"
COMPACT = "select pgq.compact_ticks() and pgq.compact_positions(), pgq.maint_ticks('q')"


class Busy(NamedTuple):
    """A worker that has a batch."""

    who: str
    pid: int  # of the server process
    sub: int
    batch: int

    @property
    def process(self) -> int:
        """The worker's process."""
        return int(self.who.partition(".")[0])


def signalled(process: int, number: int) -> bool:
    """Send a signal, unless the process was killed: the server may not have seen that yet."""
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return False
    return True


class Storm:
    """Workers, a producer and a ticker on one server, and the faults that have happened."""

    def __init__(
        self, server: EmbeddedServer, spawn: Callable[..., PythonProcess], folder: Path, kind: str
    ) -> None:
        """Make the queue and start them all."""
        self.server, self.dsn, self.folder, self.kind = server, server.dsn(), folder, kind
        self.faults: list[Fault] = []
        self.stopped: set[int] = set()  # processes
        self._prepare()
        env = {"PYTHONPATH": ROOT}
        self.swarm = spawn(SWARM, kind, self.dsn, str(folder), env=env)
        # Few ticks with many events: each one wakes all workers up.
        ticker = {f"PGQPY_{name}_INTERVAL": "0.5" for name in ("POLL", "TICK", "IDLE_POLL")}
        ticker |= {"PGQPY_RETRY_PERIOD": "0.5", "PGQPY_MAINT_PERIOD": "900"}
        self.ticker = spawn("-m", "pgqpy", "ticker", "run", "--dsn", self.dsn, env=ticker)
        self.producer = spawn(WORKLOAD, "produce", self.dsn, str(folder / "produce"), env=env)

    def _prepare(self) -> None:
        db = Database(self.dsn)
        install(db.main.connection)
        db.queue(consumers=("swarm",))
        db.main.run(SETUP)
        db.close()

    def ask(self, query: str, *args: Any) -> list[tuple]:
        """Ask the server, whatever happens to it."""
        for process in (self.swarm, self.ticker, self.producer):
            if process.popen.poll() not in (None, -signal.SIGKILL):
                raise RuntimeError(process.output())
        return ask(self.dsn, query, *args, timeout=RECOVERY)

    def busy(self) -> Busy:
        """Return a worker that has a batch, in a process that is not stopped."""

        def find() -> Busy | None:
            found = (Busy(*row) for row in self.ask(BUSY))
            return next((busy for busy in found if busy.process not in self.stopped), None)

        busy = eventually(find, RECOVERY)
        assert busy is not None
        return busy

    def logs(self) -> list[Path]:
        """Return the workers' logs."""
        return [path for path in self.folder.iterdir() if path.name.startswith("worker")]

    def progress(self) -> None:
        """Wait until the workers have handled some more events."""

        def size() -> int:
            return sum(path.stat().st_size for path in self.logs())

        enough = size() + STEP
        eventually(lambda: size() >= enough, RECOVERY)

    def rage(self) -> None:
        """Let all faults happen, in any order; those that fail now, later."""
        plan = [fault for fault, times in FAULTS[self.kind].items() for _ in range(times)]
        random.shuffle(plan)
        latest = time.monotonic() + LONGEST
        with ThreadPoolExecutor(MOST_STOPPED) as pool:
            stops = [pool.submit(self.stop) for _ in range(STOPS)]
            while plan:
                fault = plan.pop()
                happened = fault(self)
                if happened is None:
                    plan.insert(0, fault)
                else:
                    self.faults.append(happened)
                self.progress()
                assert time.monotonic() < latest, f"{len(plan)} faults did not happen: {set(plan)}"
            for stop in stops:
                stop.result()

    def stop(self) -> None:
        """Stop a process until another worker has taken its batch over, and let it go on."""
        while True:
            busy = self.busy()
            self.stopped.add(busy.process)
            fault = Fault("stop", f"{busy.process}.", time.monotonic())
            lost = []
            if signalled(busy.process, signal.SIGSTOP):
                look = partial(self.ask, LOST, busy.sub, busy.batch)
                with suppress(AssertionError):  # it was stopped after finish_batch, before COMMIT
                    lost = eventually(look, LONGEST_STOP, interval=0.5)
                signalled(busy.process, signal.SIGCONT)
            self.stopped.discard(busy.process)
            taken_over = lost == [(None,)]  # finish_batch would have left the holder
            kind = "stop" if taken_over else UNCOUNTED
            self.faults.append(fault._replace(kind=kind, ended=time.monotonic()))
            if taken_over:
                return

    def come_to_rest(self) -> None:
        """Stop the producer and wait until everything was handled and finished."""
        self.producer.kill()
        eventually(lambda: not any(self.ask(AT_REST)[0]), RECOVERY)


def _kill(storm: Storm) -> Fault | None:
    process = storm.busy().process
    fault = Fault("kill", f"{process}.", time.monotonic())
    return fault if signalled(process, signal.SIGKILL) else None


def _terminate(storm: Storm) -> Fault | None:
    begun, busy = time.monotonic(), storm.busy()
    done = storm.ask(TERMINATE, busy.pid) == [(True,)]
    return Fault("terminate", busy.who, begun, time.monotonic()) if done else None


def _cancel(storm: Storm) -> Fault | None:
    begun, found = time.monotonic(), storm.ask(CANCEL)
    return Fault("cancel", found[0][0], begun, time.monotonic()) if found else None


def _rotate(storm: Storm) -> Fault | None:
    before = storm.ask(TABLE)
    for call in ROTATE:
        storm.ask(call)
    return Fault("rotate", NOBODY, time.monotonic()) if storm.ask(TABLE) != before else None


def _compact(storm: Storm) -> Fault | None:
    return Fault("compact", NOBODY, time.monotonic()) if storm.ask(COMPACT)[0][0] else None


def _crash(storm: Storm) -> Fault | None:
    begun = time.monotonic()
    kill_server(storm.server)
    storm.server.start()
    return Fault("crash", EVERYBODY, begun, time.monotonic())


# Rotation and compaction hardly get their locks beside 64 transactions that last.
FAULTS = {
    "outside": {_kill: 46, _terminate: 92, _cancel: 40, _rotate: 2, _compact: 2, _crash: 2},
    "effects": {_kill: 46, _terminate: 92, _cancel: 44, _crash: 2},
}


@pytest.fixture(params=["outside", pytest.param("effects", marks=pytest.mark.long)])
def storm(
    request: pytest.FixtureRequest,
    own_server: EmbeddedServer,
    spawn: Callable[..., PythonProcess],
    tmp_path: Path,
) -> Iterator[Storm]:
    """64 workers, at work, of a consumer that is transactional or not."""
    storm = Storm(own_server, spawn, tmp_path, request.param)
    try:
        eventually(lambda: storm.ask(RUNNING) == [(PROCESSES * THREADS,)], RECOVERY)
        storm.progress()
        yield storm
    finally:
        os.killpg(storm.swarm.pid, signal.SIGKILL)


@pytest.mark.slow
def test_64_workers_lose_and_double_nothing_through_200_faults(storm: Storm) -> None:
    storm.rage()
    storm.come_to_rest()
    counts = Counter(fault.kind for fault in storm.faults if fault.kind != UNCOUNTED)
    assert counts.total() >= 200, counts
    handled = [read_handled(path) for path in storm.logs()]
    distinct = {(each.data, each.retry) for log in handled for each in log}
    assert sum(map(len, handled)) > len(distinct), "no fault hit anything"
    if storm.kind == "outside":
        transactions = read_transactions(storm.folder / "produce")
        assert check_workers(transactions, handled, storm.faults) == Findings()
    else:
        assert storm.ask(TWICE_OR_NEVER) == []
    assert storm.ask("select count(*) from pgq.dead_event") == [(0,)]
