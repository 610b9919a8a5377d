"""The worker processes, and the killer that ends one of them now and then."""

from __future__ import annotations

import random
import signal
import time
from typing import TYPE_CHECKING

from pgqpy.own_process import own_process

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path

    from pgqpy.sandbox.database import Database
    from pgqpy.sandbox.processes import Child
    from pgqpy.simulate.line_log import LineLog
    from pgqpy.simulate.options import Options

WORKER = own_process("pgqpy.simulate.worker")


class Crew:
    """Starts the workers, and kills a random one every `kill_every` seconds; starts it again.

    Each start is a run with a number of its own. The seconds begin when the new run has handled
    something: otherwise nothing would ever be handled where a process needs longer to start.
    """

    def __init__(
        self, database: Database, options: Options, folder: Path, log: LineLog, stack: ExitStack
    ) -> None:
        """Start no process yet. `stack` ends them; `log` is told of each kill."""
        self._database = database
        self._options = options
        self._folder = folder
        self._log = log
        self._stack = stack
        self._rng = random.Random(f"{options.seed} killer")
        self._running: dict[int, Child] = {}  # by run
        self._runs = 0
        self._next_kill: float | None = None  # None: the last run has handled nothing yet
        self.kills = 0

    def start(self) -> None:
        """Start all workers."""
        for _ in range(self._options.workers):
            self._start_one()

    def tend(self, at_work: set[int]) -> None:
        """Kill a worker if it is time. `at_work` are the runs that have handled something.

        Raises RunFailed if a worker has ended by itself.
        """
        for child in self._running.values():
            child.check()
        if not self._options.kill_every:
            return
        if self._next_kill is None:
            if self._runs - 1 in at_work:
                self._next_kill = time.monotonic() + self._options.kill_every
        elif time.monotonic() >= self._next_kill:
            self._kill(self._rng.choice(sorted(at_work & self._running.keys())))
            self._start_one()
            self._next_kill = None

    def stop(self) -> None:
        """Stop all workers by SIGTERM. RunFailed if one does not end in order."""
        for child in self._running.values():
            code = child.stop()
            if code not in {0, -signal.SIGTERM}:  # the signal came while Python started
                raise child.failure(f"ended with exit code {code} after SIGTERM")
        self._running.clear()

    def _kill(self, run: int) -> None:
        self._log.write("kill", run=run)  # before: the worker wrote all its later lines alive
        self._running.pop(run).kill()
        self.kills += 1

    def _start_one(self) -> None:
        run, self._runs = self._runs, self._runs + 1
        path = self._folder / f"run-{run}.jsonl"
        command = [*WORKER, str(run), str(path), self._options.json()]
        child = self._database.start(f"worker-{run}", command)
        self._running[run] = self._stack.enter_context(child)
