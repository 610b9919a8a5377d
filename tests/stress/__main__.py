"""Run the storm: python -m tests.stress SECONDS SEED [SECONDS BETWEEN CRASHES OF THE SERVER]."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import psycopg

from pgqpy.embedded import embedded_server
from pgqpy.install import install
from tests.stress.changer import change
from tests.stress.judge import judge
from tests.stress.producers import KILLERS, PRODUCERS, connect, produce
from tests.stress.workers import LEASE, work

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from pgqpy.embedded import EmbeddedServer

WORKERS = 9
PER_KEY, LIMIT = 2, 15
CONSUMERS: dict[str, list[Any]] = {  # key, per_key, limit_in_flight
    "unordered": [None, 1, None],
    "ordered": ["extra1", 1, None],
    "limited": ["extra1", PER_KEY, LIMIT],
}
SETTINGS: dict[str, str | int] = {
    "max_prepared_transactions": 20,
    "fsync": "on",
    "autovacuum_naptime": "1s",
    "max_connections": 60,
}
TABLES = """
    create table sent (ev_id bigint, key text, n bigint, kind text);
    create index on sent (key, n);
    create table handled (
        id bigserial, consumer text, ev_id bigint, key text, n bigint, primary key (id))"""
OVER = """
    select count(*), max(claimed), sum(claimed)
      from (select run_key, sum(cardinality(run_ids)) as claimed
              from pgq.inflight join pgq.registration on run_sub = sub_id
              join pgq.consumer on co_id = sub_consumer
             where co_name = 'limited' and run_token > 0 group by 1) claim"""
PATIENCE = 90  # seconds after the producers' end


class Storm:
    """The processes of one run."""

    def __init__(self, server: EmbeddedServer, seed: int) -> None:
        """Make the queue, and start nothing."""
        self._server = server
        self._dsn = server.dsn()
        self._seed = seed
        self._dice = random.Random(seed)
        self._context = multiprocessing.get_context("fork")
        self._stop, self._stop_workers = self._context.Event(), self._context.Event()
        self._pause = self._context.Event()
        self._changes = self._context.Value("i", 0)
        self._workers: list[BaseProcess] = []
        self.over = 0
        self.counts = {"kills": 0, "stops": 0, "crashes": 0, "rotations": 0, "deaths": 0}
        with connect(self._dsn) as connection:
            connection.execute("select pgq.create_queue('q')")
            rotate = "select pgq.set_queue_config('q', 'rotation_period', '1 microsecond')"
            connection.execute(rotate)
            for name, settings in CONSUMERS.items():
                register = "select pgq.register_shared_consumer('q', %s, %s, %s, %s)"
                connection.execute(register, [name, *settings])
            connection.execute(TABLES)

    def run(self, seconds: float, crash_every: float) -> bool:
        """Let it blow, then wait until everything is handled; False if that does not end."""
        producers = [
            self._start(produce, self._dsn, number, self._seed, self._stop)
            for number in range(PRODUCERS)
        ]
        to_change = ("unordered", self._pause, self._stop, self._changes)
        producers.append(self._start(change, self._dsn, *to_change))
        self._workers = [self._start_worker(number) for number in range(WORKERS)]
        begun = crashed = time.monotonic()
        while any(worker.is_alive() or worker.exitcode for worker in self._workers):
            now = time.monotonic()
            if now > begun + 2 * seconds + PATIENCE:  # producers may be faster than workers
                for process in (*self._workers, *producers):
                    process.kill()
                return False
            if now > begun + seconds and not self._stop.is_set():
                self._stop.set()
            all_sent = self._stop.is_set() and not any(each.is_alive() for each in producers)
            if crash_every and now > crashed + crash_every and now < begun + seconds:
                self._server.stop("immediate")
                self._server.start()
                self.counts["crashes"] += 1
                crashed = time.monotonic()
            self._harm(now < begun + seconds)
            if self._tick() and all_sent:
                self._stop_workers.set()
            time.sleep(0.02)
        self.counts["changes"] = self._changes.value
        return True

    def _start(self, target: Any, *args: Any) -> BaseProcess:
        process = self._context.Process(target=target, args=args, daemon=True)
        process.start()
        return process

    def _start_worker(self, number: int) -> BaseProcess:
        consumer = list(CONSUMERS)[number % 3]
        pause = self._pause if consumer == "unordered" else None
        return self._start(work, self._dsn, consumer, number % 2 == 0, self._stop_workers, pause)

    def _harm(self, is_storm: bool) -> None:
        """Kill or stop a worker now and then; replace those that died."""
        luck = self._dice.random()
        victim = self._dice.choice(self._workers)
        if is_storm and luck < 0.04 and victim.is_alive() and victim.pid:
            os.kill(victim.pid, signal.SIGKILL)
            self.counts["kills"] += 1
        elif is_storm and luck < 0.045 and victim.is_alive() and victim.pid:
            os.kill(victim.pid, signal.SIGSTOP)
            time.sleep(LEASE + 0.5)
            os.kill(victim.pid, signal.SIGCONT)
            self.counts["stops"] += 1
        for number, worker in enumerate(self._workers):
            if not worker.is_alive() and (worker.exitcode or not self._stop_workers.is_set()):
                self._workers[number] = self._start_worker(number)
                self.counts["deaths"] += 1

    def _tick(self) -> bool:
        """Tick, and rotate about once a second; False if the server has crashed."""
        try:
            with connect(self._dsn) as connection:
                connection.execute("select pgq.force_tick('q'), pgq.ticker('q')")
                connection.execute("select pgq.maint_retry_events()")
                row = connection.execute(OVER).fetchone()
                if row and row[0] and (row[1] > PER_KEY or row[2] > LIMIT):
                    self.over += 1
                if self._dice.random() < 0.05:
                    connection.execute("select pgq.maint_rotate_tables_step1('q')")
                    connection.execute("select pgq.maint_rotate_tables_step2()")
                    self.counts["rotations"] += 1
        except psycopg.Error as error:
            print(f"stress: tick: {error}", flush=True)
            return False
        return True


def main() -> int:
    """Run one storm; 0 if nothing was lost, doubled or out of order."""
    seconds, seed = float(sys.argv[1]), int(sys.argv[2])
    crash_every = float(sys.argv[3]) if len(sys.argv) > 3 else 0
    print(f"stress: {seconds:.0f} s, seed {seed}, {WORKERS} workers", flush=True)
    with embedded_server(settings=SETTINGS) as server:
        with connect(server.dsn()) as connection:
            install(connection)
        storm = Storm(server, seed)
        ended = storm.run(seconds, crash_every)
        with connect(server.dsn()) as connection:
            faults = judge(connection, list(CONSUMERS), PRODUCERS * KILLERS)
    print("stress:", ", ".join(f"{count} {what}" for what, count in storm.counts.items()))
    if storm.over:
        faults.append(f"limited: {storm.over} times over its limits")
    if not ended:
        faults.append("it did not end: events are left")
    for fault in faults:
        print(f"stress: {fault}")
    print("stress: FAILED" if faults else "stress: passed", flush=True)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
