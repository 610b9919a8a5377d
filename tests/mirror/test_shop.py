"""A shop that knows nothing of pgqpy is mirrored while all processes and the server are killed."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections import Counter
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing
from threading import Event
from typing import TYPE_CHECKING

import pytest

from pgqpy.install import install
from tests.guarantees.sessions import Session
from tests.mirror.conftest import FENCE, NAME, QUEUE
from tests.support.crash import ask, kill_server
from tests.support.processes import PythonProcess
from tests.support.tree import ROOT
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pgqpy.testing import EmbeddedServer

SECONDS = 25  # of the storm
KILLS = 2  # of each, at least
TICKS = 20  # whose sums were compared, at least
KILLED = ("pgbench", "ticker", "mirror", "copier", "server", "resumed copy")
ENV = {"PGQPY_MAINT_PERIOD": "0.3", "PGQPY_POLL_INTERVAL": "0.02", "PGQPY_TICK_INTERVAL": "0.03"}
SHOP = ("accounts", "tellers", "branches", "history", "orders")
SCRIPT = ROOT / "tests" / "mirror" / "shop.sql"
TABLES = [f"public.pgbench_{each}" for each in SHOP]
# After `pgbench -i`: a key for the history, fewer accounts, and orders.
DEFINITIONS = """
    alter table pgbench_history add id bigint generated always as identity primary key;
    delete from pgbench_accounts where aid > 10000;
    create table pgbench_orders (
        aid int references pgbench_accounts, no int, amount int, primary key (aid, no))"""
SUMS = """
    select tick, (select sum(abalance) from pgbench_accounts),
           (select sum(tbalance) from pgbench_tellers),
           (select sum(bbalance) from pgbench_branches),
           (select sum(delta) from pgbench_history), (select sum(amount) from pgbench_orders)
      from public.pgqpy_mirror"""
EXEC = "import os, sys; os.execv(sys.argv[1], sys.argv[1:])"
AWAY = "ConnectionFailed|OperationalError|Shutdown|CannotConnectNow"  # errors of a lost source


class Storm:
    """All that runs, how often each was killed, and what was seen in the target."""

    def __init__(self, server: EmbeddedServer, target: str, seed: str) -> None:
        self.server, self.source, self.target = server, server.dsn(), target
        self.seed = seed
        self.stop = Event()
        self.kills: Counter[str] = Counter()
        self.copies = 0
        self.copied_at: int | None = None  # a tick after the first copy
        self.seen: dict[int, list[int]] = {}  # sums in the target, by tick

    def pgqpy(self, *args: str) -> PythonProcess:
        return PythonProcess("-m", "pgqpy", *args, env={**ENV, "PGQPY_DSN": self.source})

    def command(self, *args: str) -> str:
        with closing(self.pgqpy(*args)) as process:
            assert process.wait() == 0, process.output()
            return process.output()

    def start(self, name: str) -> PythonProcess:
        if name == "ticker":
            return self.pgqpy("ticker", "run")
        if name == "mirror":
            places = {"PGQPY_SOURCE": self.source, "PGQPY_TARGET": self.target}
            return PythonProcess(str(ROOT / "examples" / "mirror.py"), env={**ENV, **places})
        seed = random.Random(f"{self.seed} {self.kills[name]}").randrange(10**6)
        options = ("-n", "-c5", "-R200", "-T600", f"-f{SCRIPT}", f"--random-seed={seed}")
        program = str(self.server.bin_dir / "pgbench")
        return PythonProcess("-c", EXEC, program, *options, self.source)

    def outlives(self, process: PythonProcess, seconds: float) -> bool:
        """Wait until the time, the process or the storm ends; whether the process still runs."""
        end = time.monotonic() + seconds
        while process.popen.poll() is None and time.monotonic() < end and not self.stop.is_set():
            self.stop.wait(0.01)
        return process.popen.poll() is None

    def kill(self, name: str) -> None:
        chance = random.Random(f"{self.seed} {name}")
        while not self.stop.is_set():
            with closing(self.start(name)) as process:
                if self.outlives(process, chance.uniform(0.3, 4)):
                    process.kill()
                    self.kills[name] += 1
                elif name == "mirror":  # it ends by itself only if the source is away at its start
                    assert re.search(AWAY, process.output()), process.output()
                    assert "process_batch" not in process.output(), process.output()

    def copy(self) -> None:
        """Copy the tables again and again; kill copies, or stop them and go on."""
        chance = random.Random(f"{self.seed} copy")
        args = whole = ("capture", "snapshot", *TABLES)
        while not self.stop.is_set():
            end = chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGINT, None, None))
            with closing(self.pgqpy(*args)) as process:
                if self.outlives(process, chance.random() if end else 60) and end:
                    process.signal(end)
                    self.kills["copier"] += end == signal.SIGKILL
                if process.wait() == 0:
                    self.copies += 1
                    tick = ask(self.source, "select tick_id from pgq.tick_queue(%s)", QUEUE)[0][0]
                    self.copied_at = self.copied_at or tick
                    args = whole
                elif found := re.search(r"to go on: pgqpy (.*)", process.output()):
                    args = tuple(found[1].split())
                    self.kills["resumed copy"] += 1

    def crash(self) -> None:
        chance = random.Random(f"{self.seed} crash")
        while not self.stop.wait(chance.uniform(3, 8)):
            if chance.random() < 0.5:
                self.server.stop("immediate")
            else:
                kill_server(self.server)
            self.server.start()
            self.kills["server"] += 1

    def watch(self) -> None:
        with closing(Session(self.target)) as session:
            eventually(lambda: session.one("select to_regclass('public.pgqpy_mirror')"))
            while not self.stop.wait(0.005):
                self.seen = {**self.seen, **{tick: sums for tick, *sums in session.all(SUMS)}}

    def run(self) -> None:
        with ThreadPoolExecutor(8) as pool:
            running = [pool.submit(self.kill, "pgbench")]
            try:
                eventually(lambda: ask(self.source, "select from pgbench_history limit 1"))
                self.capture()
                running += [pool.submit(self.kill, name) for name in ("ticker", "mirror")]
                running += [pool.submit(each) for each in (self.copy, self.crash, self.watch)]
                wait(running, SECONDS, FIRST_EXCEPTION)
                eventually(lambda: any(each.done() for each in running) or self.is_enough(), 120)
            finally:
                self.stop.set()
            for each in running:
                each.result()

    def capture(self) -> None:
        self.command("queue", "create", QUEUE)
        self.command("consumer", "register", QUEUE, NAME)
        self.command("capture", "add", *TABLES, "--queue", QUEUE)
        with closing(Session(self.target)) as session:
            session.run(self.command("capture", "ddl", *TABLES))

    def sums(self) -> list[list[int]]:
        """Return the sums that were seen at ticks after the first copy."""
        first = self.copied_at
        return [] if first is None else [s for tick, s in self.seen.items() if tick >= first]

    def is_enough(self) -> bool:
        killed = all(self.kills[name] >= KILLS for name in KILLED)
        return killed and self.copies >= KILLS and len(self.sums()) >= TICKS

    def compare(self) -> None:
        """Let the mirror apply what is left, and compare all rows."""
        with (
            closing(Session(self.source)) as source,
            closing(Session(self.target)) as target,
            closing(self.start("mirror")) as mirror,
        ):
            tick = source.tick(QUEUE)
            eventually(lambda: mirror.popen.poll() is not None or target.one(FENCE) == tick, 120)
            assert target.one(FENCE) == tick, mirror.output()
            for table in TABLES:
                query = f"select t::text from {table} t order by 1"
                assert target.all(query) == source.all(query), table


@pytest.mark.slow
def test_a_shop_is_mirrored_while_everything_is_killed(
    own_server: EmbeddedServer, empty_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = os.environ.get("PGQPY_STORM_SEED", str(random.randrange(10**6)))
    own_server.run("pgbench", "-i", "-q", own_server.dsn())
    with closing(Session(own_server.dsn())) as session:
        install(session.connection)
        session.run(DEFINITIONS)
        session.run("vacuum full pgbench_accounts")
    storm = Storm(own_server, empty_dsn, seed)
    storm.run()
    with capsys.disabled():
        counts = f"{dict(storm.kills)}, {storm.copies} copies, {len(storm.sums())} ticks"
        print(f" PGQPY_STORM_SEED={seed}: {counts} ", end="")  # noqa: T201  # to repeat it
    assert [sums for sums in storm.sums() if len(set(sums)) > 1] == []
    assert storm.is_enough(), storm.kills
    storm.compare()
