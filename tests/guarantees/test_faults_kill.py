"""SIGKILL of anything at any time, under load: the history is checked when it has come to rest."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from pgqpy.install import install
from tests.guarantees.history import Findings, check, read_deliveries, read_transactions
from tests.guarantees.sessions import Database
from tests.support.crash import ask, kill_backend, kill_server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgqpy.testing import EmbeddedServer
    from tests.support.processes import PythonProcess

WORKLOAD = str(Path(__file__).with_name("workload.py"))
ROOT = str(Path(__file__).parents[2])
BATCHES = 10  # with events in them, between two faults
RECOVERY = 60  # seconds; what is promised is 10, on a machine with nothing else to do
ROLES = ("consume", "effects", "produce 1", "produce 2", "ticker")
SETUP = """
    create table marker (data text);
    create table effect (data text);
"""


class Load:
    """Two producers, two consumers and a ticker on one server, and their logs."""

    def __init__(self, dsn: str, spawn: Callable[..., PythonProcess], logs: Path) -> None:
        """Make the queue, start them all, and wait until they are at work."""
        self.dsn, self._spawn, self.logs = dsn, spawn, logs
        self.processes: dict[str, PythonProcess] = {}
        self._prepare()
        for role in ROLES:
            self.start(role)
        self.progress()

    def _prepare(self) -> None:
        db = Database(self.dsn)
        db.queue(consumers=("outside", "effects"))
        db.main.run(SETUP)
        db.close()

    def start(self, role: str) -> None:
        """Start a process (again)."""
        if role == "ticker":
            self.processes[role] = self._spawn(
                *("-m", "pgqpy", "ticker", "run"),
                *("--dsn", self.dsn),
                env={"PGQPY_MAINT_PERIOD": "0.2", "PGQPY_RETRY_PERIOD": "0.2"},
            )
            return
        log = str(self.logs / f"{role} {len(list(self.logs.iterdir()))}")
        words = (WORKLOAD, role.partition(" ")[0], self.dsn, log)
        self.processes[role] = self._spawn(*words, env={"PYTHONPATH": ROOT})

    def kill(self, role: str) -> None:
        """Kill a process and start it again."""
        self.processes[role].kill()
        self.start(role)

    def revive(self) -> None:
        """Start those again that ended: a consumer that found its predecessor's backend alive."""
        for role, process in list(self.processes.items()):
            if process.popen.poll() is not None:
                if "runs already" not in process.output():
                    raise RuntimeError(process.output())
                self.start(role)

    def batches(self) -> int:
        """Return how many batches with events the consumer outside has processed."""
        # Asked again and again: the lines are counted, not read.
        return sum(path.read_bytes().count(b'"events": [[') for path in self._paths("consume"))

    def _paths(self, role: str) -> list[Path]:
        return [path for path in self.logs.iterdir() if path.name.startswith(role)]

    def _deliveries(self) -> list:
        paths = self._paths("consume")
        in_order = sorted(paths, key=lambda path: int(path.name.split()[-1]))
        return [delivery for path in in_order for delivery in read_deliveries(path)]

    def progress(self) -> None:
        """Wait until everybody works: some batches more, and effects too."""
        batches, effects = self.batches() + BATCHES, self._effects()

        def moved() -> bool:
            self.revive()
            return self.batches() >= batches and self._effects() > effects

        eventually(moved, RECOVERY)

    def _effects(self) -> int:
        return int(self.query("select count(*) from effect")[0][0])

    def query(self, query: str) -> list[tuple]:
        """Ask the server, whatever happens to it."""
        return ask(self.dsn, query, timeout=RECOVERY)

    def come_to_rest(self) -> None:
        """Stop the producers and wait until everything was delivered and finished."""
        for role in ("produce 1", "produce 2"):
            self.processes.pop(role).kill()
        eventually(self._is_at_rest, RECOVERY)

    def _is_at_rest(self) -> bool:
        self.revive()
        open_transactions, waiting, pending, unticked = self.query(AT_REST)[0]
        return not (open_transactions or waiting or pending or unticked)

    def findings(self) -> Findings:
        """Judge the history of the consumer outside."""
        logs = self._paths("produce")
        transactions = [each for path in logs for each in read_transactions(path)]
        assert sum(t.outcome == "committed" for t in transactions) > 100
        return check(transactions, self._deliveries())


# Nothing is open, waits for a retry, is unfinished, or unseen by the last tick.
AT_REST = """
    select
        (select count(*) from pg_locks
            where relation = 'pgq.event_1_id_seq'::regclass and mode = 'RowExclusiveLock'),
        (select count(*) from pgq.retry_queue),
        (select count(*) from pgq.subscription
            where sub_batch is not null
                or sub_last_tick < (select max(tick_id) from pgq.tick)),
        (select count(*) from pgq.event_1
            where not txid_visible_in_snapshot(ev_txid, (
                select tick_snapshot from pgq.tick order by tick_id desc limit 1)))
"""
# Each committed event has its effect once; retries are not for this consumer.
TWICE_OR_NEVER = """
    select data, count(m.data), count(e.data)
    from (select data, row_number() over (partition by data) from marker) m
    full join (select data, row_number() over (partition by data) from effect) e
        using (data, row_number)
    group by data having count(m.data) <> 1 or count(e.data) <> 1
"""


def _kill_consumers(load: Load) -> None:
    load.kill("consume")
    load.kill("effects")


def _kill_ticker(load: Load) -> None:
    load.kill("ticker")


def _kill_producers(load: Load) -> None:
    load.kill("produce 1")
    load.kill("produce 2")


def _kill_a_backend(load: Load, _server: EmbeddedServer) -> None:
    pids = load.query(
        "select pid from pg_stat_activity"
        " where backend_type = 'client backend' and pid <> pg_backend_pid()"
    )
    kill_backend(random.choice(pids)[0])


def _stop_at_once(_load: Load, server: EmbeddedServer) -> None:
    server.stop("immediate")
    server.start()


def _kill_the_server(_load: Load, server: EmbeddedServer) -> None:
    kill_server(server)
    server.start()


KILLS = (_kill_consumers, _kill_ticker, _kill_producers)
CRASHES = (_kill_a_backend, _stop_at_once, _kill_the_server)


def test_nothing_is_lost_doubled_split_or_out_of_order_when_processes_are_killed(
    dsn: str, spawn: Callable[..., PythonProcess], tmp_path: Path
) -> None:
    load = Load(dsn, spawn, tmp_path)
    for kill in KILLS:  # each comes when the load is under way again
        kill(load)
        load.progress()
    assert_right(load)


def test_nothing_is_lost_doubled_split_or_out_of_order_when_the_server_crashes(
    own_server: EmbeddedServer, spawn: Callable[..., PythonProcess], tmp_path: Path
) -> None:
    with psycopg.connect(own_server.dsn(), autocommit=True) as connection:
        install(connection)
    load = Load(own_server.dsn(), spawn, tmp_path)
    for crash in CRASHES:
        crash(load, own_server)
        load.progress()
    assert_right(load)


def assert_right(load: Load) -> None:
    """Judge what the consumers were given, and the effects, when all has come to rest."""
    load.come_to_rest()
    assert load.findings() == Findings()
    assert load.query(TWICE_OR_NEVER) == []
    assert load.query("select queue_switch_tick > 0 from pgq.queue") == [(True,)]  # it rotated
