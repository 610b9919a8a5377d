"""The steps of a simulation: insert, handle, wait for the end; for pgqpy, then for the peer."""

from __future__ import annotations

import json
import random
import signal
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, TextIO

from pgqpy import calls
from pgqpy.child_processes import own_process
from pgqpy.simulate import peer
from pgqpy.simulate.checker import History, Stored
from pgqpy.simulate.log import LineLog, LogReader
from pgqpy.simulate.options import AUDIT, CONSUMER, PRODUCERS, QUEUE
from pgqpy.simulate.processes import content_of
from pgqpy.texts import noun

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pgqpy import Client
    from pgqpy.sandbox import Child, Database, View
    from pgqpy.simulate.log import Line
    from pgqpy.simulate.options import Options


TICKER = own_process("pgqpy", "ticker", "run")
PROCESS = own_process("pgqpy.simulate.processes")
POLL_INTERVAL = 0.05  # seconds between two checks of the processes
AUDIT_INTERVAL = 1.0  # seconds
A_WHILE = 1.0  # seconds
QUIET = 15.0  # seconds; an event that nobody has handled by then is lost


class Audit:
    """Reads the range between each two ticks, as a consumer of its own that keeps their events.

    It reads while the simulation runs: after a minute or so, maintenance keeps only one tick of
    each second.
    """

    def __init__(self, client: Client) -> None:
        """Register the consumer; what commits from now on is read."""
        client.register_consumer(QUEUE, AUDIT)
        (info,) = client.get_consumer_info(QUEUE, AUDIT)
        self._client = client
        self._tick = info.last_tick or 0
        self.events: list[Stored] = []

    def read(self) -> None:
        """Read up to the last tick. A range of ticks is the same whenever it is read."""
        for tick in self._client.call(calls.ticks.get_tick_info(QUEUE, self._tick)):
            if tick.tick_id > self._tick:
                for event in self._client.get_tick_events(QUEUE, self._tick, tick.tick_id):
                    self.events.append(Stored(event.id, content_of(event)))
                self._tick = tick.tick_id

    def dead(self) -> set[int]:
        """Return the events that the workers gave up."""
        return {event.ev_id for event in self._client.get_dead_events(QUEUE, CONSUMER)}

    def close(self) -> None:
        """Unregister, so that a queue that stays can be rotated."""
        self._client.unregister_consumer(QUEUE, AUDIT)


class Progress:
    """Counts lines of the log, and shows the counts."""

    def __init__(self, view: View) -> None:
        """Count from zero."""
        self._view = view
        self._began = self._last = time.monotonic()
        self._committed = self._handled = self._failed = self._kills = 0
        self.started: set[int] = set()  # the runs that have begun to look for events
        self.at_work: set[int] = set()  # the runs that have handled something

    @property
    def idle(self) -> float:
        """The seconds since something happened."""
        return time.monotonic() - self._last

    @property
    def seems_done(self) -> bool:
        """Whether to ask the server: counting there would slow down what is measured."""
        return self._handled >= self._committed or self.idle > A_WHILE

    def add(self, lines: Iterable[Line]) -> None:
        """Count the lines, and show the counts."""
        for line in lines:
            if line["do"] != "empty":
                self._last = time.monotonic()
            if line["do"] == "commit":
                self._committed += len(line["events"])
            elif line["do"] == "start":
                self.started.add(line["run"])
            elif line["do"] == "kill":
                self._kills += 1
            elif line["do"] == "end":
                self.at_work.add(line["run"])
                self._handled += line["ok"]
                self._failed += not line["ok"]
        cells = [
            ("committed", f"{self._committed:,}"),
            ("handled", f"{self._handled:,}"),
            ("failed", f"{self._failed:,}"),
            ("kills", str(self._kills)),
        ]
        self._view.show(time.monotonic() - self._began, cells)


class Crew:
    """Starts the workers, and kills a random one every `kill_every` seconds; starts it again.

    Each start is a run with a number of its own. The seconds begin when the new run has handled
    something: otherwise nothing would ever be handled where a process needs longer to start.
    """

    def __init__(self, load: Load, log: LineLog) -> None:
        """Start no process yet; `log` is told of each kill."""
        self._load = load
        self._log = log
        self._rng = random.Random(f"{load.options.seed} killer")
        self._running: dict[int, Child] = {}  # by run
        self._runs = 0
        self._next_kill: float | None = None  # None: the last run has handled nothing yet

    def start(self) -> None:
        """Start all workers."""
        for _ in range(self._load.options.workers):
            self._start_one()

    def tend(self, at_work: set[int]) -> None:
        """Kill a worker if it is time. `at_work` are the runs that have handled something.

        Raises RunFailed if a worker has ended by itself.
        """
        for child in self._running.values():
            child.check()
        kill_every = self._load.options.kill_every
        if not kill_every:
            return
        if self._next_kill is None:
            if self._runs - 1 in at_work:
                self._next_kill = time.monotonic() + kill_every
        elif time.monotonic() >= self._next_kill:
            self._kill(self._rng.choice(sorted(at_work & self._running.keys())))
            self._start_one()
            self._next_kill = None

    def stop(self) -> None:
        """Stop all workers by SIGTERM. RunFailed if one does not end in order."""
        for child in self._running.values():
            code = child.stop()
            if code not in {0, -signal.SIGTERM}:  # the peer's have nothing to finish
                raise child.failure(f"ended with exit code {code} after SIGTERM")
        self._running.clear()

    def _kill(self, run: int) -> None:
        self._log.write("kill", run=run)  # before: the worker wrote all its later lines alive
        self._running.pop(run).kill()

    def _start_one(self) -> None:
        run, self._runs = self._runs, self._runs + 1
        self._running[run] = self._load.start("worker", run)


class Load:
    """What both systems get: the same producers, and the same number of workers.

    Every process that it starts has ended at the end of a `with` block of `stack`.
    """

    name = ""  # of the system, and of the folder of its log
    kind = ""  # in front of the names of its processes

    def __init__(
        self, database: Database, client: Client, options: Options, view: View, log: TextIO | None
    ) -> None:
        """Start no process yet. `log` gets each line of the processes' logs."""
        self.options = options
        self.stack = ExitStack()
        self.history = History()
        self._database = database
        self._client = client
        self._view = view
        self._log = log
        self._folder = database.logs / self.name
        self._folder.mkdir(mode=0o700)
        self._reader = LogReader(self._folder)
        self._progress = Progress(view)

    def play(self) -> History:
        """Let producers insert and workers handle; return what happened."""
        with self.stack:
            self._begin()
            own = LineLog(self._folder / "crew.jsonl")
            self.stack.callback(own.close)
            crew, options = Crew(self, own), self.options
            if not options.rate:
                count = f"{options.fill:,} {noun(options.fill, 'event')}"
                self._say(f"{PRODUCERS} producers insert {count}")
                self._produce(crew)
            crew.start()
            while len(self._progress.started) < options.workers:
                self._check(crew)
            self._say(f"{options.workers} {noun(options.workers, 'worker')} started")
            if options.rate:
                self._produce(crew)
            while self._progress.idle < QUIET + options.sleep:
                self._check(crew)
                if self._progress.seems_done and not self._is_busy():
                    break
            crew.stop()
            self._read_log()
            self._end()
        self.history.close()
        return self.history

    def start(self, kind: str, number: int) -> Child:
        """Start a worker or a producer."""
        name = f"{self.kind}{kind}"
        path = self._folder / f"{kind}-{number}.jsonl"
        command = [*PROCESS, name, str(path), self.options.json(), str(number)]
        child = self._database.start(f"{name}-{number}", command)
        return self.stack.enter_context(child)

    def _begin(self) -> None:
        """Prepare the system."""

    def _look(self) -> None:
        """Read what the system itself knows."""

    def _is_busy(self) -> bool:
        """Say whether something is still to be handled. All has been inserted."""
        raise NotImplementedError

    def _end(self) -> None:
        """Tell the history what the system itself knows."""

    def _say(self, text: str) -> None:
        self._view.say(f"{self.name}: {text}")

    def _produce(self, crew: Crew) -> None:
        """Run the producers to their end."""
        running = [self.start("producer", number) for number in range(PRODUCERS)]
        while any(child.running for child in running):
            self._check(crew)
        for child in running:
            if code := child.wait(QUIET):
                raise child.failure(f"ended with exit code {code}")

    def _check(self, crew: Crew) -> None:
        """Read what is new, show the figures; RunFailed if a process is gone."""
        crew.tend(self._progress.at_work)
        self._look()
        self._read_log()
        time.sleep(POLL_INTERVAL)

    def _read_log(self) -> None:
        lines = self._reader.new_lines()
        self.history.add(lines)
        self._progress.add(lines)
        if self._log is not None:
            self._log.writelines(f"{json.dumps(line)}\n" for line in lines)
            self._log.flush()


class Pgqpy(Load):
    """The shared consumer of a queue, beside a ticker."""

    name = "pgqpy"

    def _begin(self) -> None:
        self._client.create_queue(QUEUE)
        self._client.register_consumer(QUEUE, CONSUMER, shared=True, key="extra1")
        self._audit = Audit(self._client)
        self._audited = time.monotonic()
        ticker = self._database.start("ticker", TICKER, PGQPY_RETRY_PERIOD="0.2")
        self._ticker = self.stack.enter_context(ticker)

    def _look(self) -> None:
        self._ticker.check()
        if time.monotonic() - self._audited > AUDIT_INTERVAL:
            self._audit.read()
            self._audited = time.monotonic()

    def _is_busy(self) -> bool:
        call = "select pgq.queue_length(%s, %s) > 0"
        row = self._client.connection.execute(call, [QUEUE, CONSUMER]).fetchone()
        return row == (True,) or bool(self.history.unfinished() - self._audit.dead())

    def _end(self) -> None:
        self._client.tick_queue(QUEUE)
        self._audit.read()
        self.history.stored = self._audit.events
        self.history.dead = self._audit.dead()
        self._audit.close()
        if code := self._ticker.stop():
            raise self._ticker.failure(f"ended with exit code {code} after SIGTERM")


class Peer(Load):
    """The table of the peer. Nothing fails and nobody is killed there."""

    name = peer.NAME
    kind = "peer-"

    def _is_busy(self) -> bool:
        return self._client.connection.execute(peer.WAITS).fetchone() == (True,)

    def _end(self) -> None:
        """Take the truth from the producers."""
        inserts = self.history.inserts.items()
        committed = [(event, insert) for event, insert in inserts if insert.outcome == "commit"]
        self.history.stored = [Stored(event, insert.content) for event, insert in committed]
