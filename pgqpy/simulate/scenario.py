"""The steps of a simulation: fill the queue, start the workers, insert at the rate, drain, read."""

from __future__ import annotations

import random
import signal
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal, NamedTuple, TextIO

from pgqpy import calls
from pgqpy.child_processes import own_process
from pgqpy.sandbox import RunFailed
from pgqpy.simulate.checker import Content, History, Stored, repeated
from pgqpy.simulate.options import AUDIT, CONSUMER, PRODUCERS, QUEUE
from pgqpy.simulate.processes import LineLog, LogReader, Progress, write_lines
from pgqpy.texts import noun

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pgqpy import Client, Event
    from pgqpy.sandbox import Child, Database, View
    from pgqpy.simulate.options import Options


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
                    self.events.append(Stored(tick.tick_id, event.id, _content(event)))
                self._tick = tick.tick_id

    def dead(self) -> set[int]:
        """Return the events that the workers gave up."""
        return {event.ev_id for event in self._client.get_dead_events(QUEUE, CONSUMER)}

    def close(self) -> None:
        """Unregister, so that a queue that stays can be rotated."""
        self._client.unregister_consumer(QUEUE, AUDIT)


def _content(event: Event) -> Content:
    data = event.json()
    if data["key"] != event.extra1:
        return Content(data["number"], f"{data['key']} in data, {event.extra1} in extra1", "")
    return Content(data["number"], data["key"], event.type or "")


WORKER = own_process("pgqpy.simulate.processes", "worker")


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
        command = [*WORKER, str(path), self._options.json(), str(run)]
        child = self._database.start(f"worker-{run}", command)
        self._running[run] = self._stack.enter_context(child)


TICKER = own_process("pgqpy", "ticker", "run")
PRODUCER = own_process("pgqpy.simulate.processes", "producer")
POLL_INTERVAL = 0.05  # seconds between two checks of the processes
AUDIT_INTERVAL = 1.0  # seconds
CHECK_INTERVAL = 2.0  # seconds between two searches for events that come again and again
A_FEW = 100
QUIET = 15.0  # seconds; a failed event that has not come again by then is lost
STUCK = 120.0  # seconds without a line of the log
STOP = "the workers do not get to the end of the queue: nothing was handled for {:.0f} s"


class Played(NamedTuple):
    """What happened in a simulation."""

    history: History
    kills: int


def play(
    database: Database, client: Client, options: Options, view: View, log: TextIO | None
) -> Played:
    """Play a simulation; return what happened.

    Every process that it starts has ended when it returns or raises.
    """
    with ExitStack() as stack:
        return _Scenario(database, client, options, view, log, database.logs, stack).play()


class _Scenario:
    def __init__(
        self,
        database: Database,
        client: Client,
        options: Options,
        view: View,
        log: TextIO | None,
        folder: Path,
        stack: ExitStack,
    ) -> None:
        self._database = database
        self._client = client
        self._options = options
        self._view = view
        self._log = log
        self._folder = folder
        self._stack = stack
        self._reader = LogReader(folder)
        self._history = History(
            shared=options.is_shared,
            ordered=options.ordered,
            parks=options.park,
            concurrency=options.concurrency,
            types=options.types,
        )
        self._progress = Progress(view)
        self._processes: list[Child] = []
        self._next_check = 0.0

    def play(self) -> Played:
        options = self._options
        self._client.create_queue(QUEUE)
        self._register()
        audit = self._audit = Audit(self._client)
        self._audited = time.monotonic()
        ticker = self._start("ticker", TICKER, PGQPY_RETRY_PERIOD="0.2")
        if options.fill:
            count = f"{options.fill:,} {noun(options.fill, 'event')}"
            self._view.say(f"{PRODUCERS} producers fill the queue with {count}")
            self._produce("fill", options.fill, rate=0.0)
        own = LineLog(self._folder / "crew.jsonl")
        self._stack.callback(own.close)
        crew = Crew(self._database, options, self._folder, own, self._stack)
        crew.start()
        self._view.say(f"{options.workers} worker(s) started")
        tend = self._tender(crew)
        if options.rate:
            events = max(1, round(options.rate * options.seconds))
            self._produce("rate", events, options.rate, tend)
        self._drain(tend)
        crew.stop()
        audit.read()
        self._read_log()
        self._history.close()
        self._history.stored = audit.events
        self._history.dead = audit.dead()
        audit.close()
        if code := ticker.stop():
            raise ticker.failure(f"ended with exit code {code} after SIGTERM")
        return Played(self._history, crew.kills)

    def _register(self) -> None:
        if self._options.is_shared:
            key: Literal["extra1"] | None = "extra1" if self._options.ordered else None
            self._client.register_consumer(QUEUE, CONSUMER, shared=True, key=key)
        else:
            self._client.register_consumer(QUEUE, CONSUMER)

    def _tender(self, crew: Crew) -> Callable[[], None]:
        def tend() -> None:
            crew.tend(self._progress.at_work)
            self._progress.kills = crew.kills

        return tend

    def _start(self, name: str, command: list[str], **variables: str) -> Child:
        child = self._stack.enter_context(self._database.start(name, command, **variables))
        self._processes.append(child)
        return child

    def _produce(
        self, name: str, events: int, rate: float, tend: Callable[[], None] = lambda: None
    ) -> None:
        """Run the producers to their end."""
        running = []
        for number in range(PRODUCERS):
            share = events // PRODUCERS + (number < events % PRODUCERS)
            path = str(self._folder / f"{name}-{number}.jsonl")
            arguments = [path, self._options.json(), str(number), str(share), str(rate / PRODUCERS)]
            command = [*PRODUCER, *arguments]
            child = self._database.start(f"producer-{name}-{number}", command)
            running.append(self._stack.enter_context(child))
        while any(child.running for child in running):
            tend()
            self._check()
        for child in running:
            if code := child.wait(STUCK):
                raise child.failure(f"ended with exit code {code}")

    def _drain(self, tend: Callable[[], None]) -> None:
        """Wait until the workers have finished all, what was retried too."""
        while True:
            tick = self._client.tick_queue(QUEUE)
            last = 0 if tick is None else tick[0]
            while not self._options.is_shared and self._position() < last:
                tend()
                self._check()
                if self._repeats():
                    self._view.say("stopped early: events come again and again")
                    self._history.complete = False
                    return
            tend()
            self._check()
            if not (self._awaited() or self._in_flight()) or self._progress.idle > QUIET:
                return

    def _repeats(self) -> bool:
        """Say whether more than a few events came again without a reason: it may never end."""
        if time.monotonic() < self._next_check:
            return False
        self._next_check = time.monotonic() + CHECK_INTERVAL
        return len(list(repeated(self._history))) > A_FEW

    def _awaited(self) -> set[int]:
        """Return the events that have to end, or to come again."""
        unfinished = self._history.unfinished()
        return unfinished - self._audit.dead() if unfinished else unfinished

    def _in_flight(self) -> bool:
        """Say whether a shared consumer has still to handle events."""
        if not self._options.is_shared:
            return False
        call = "select pgq.queue_length(%s, %s) > 0"
        return self._client.connection.execute(call, [QUEUE, CONSUMER]).fetchone() == (True,)

    def _position(self) -> int:
        (info,) = self._client.get_consumer_info(QUEUE, CONSUMER)
        return info.last_tick or 0

    def _check(self) -> None:
        """Read the log and the ticks, show the figures; RunFailed if a process is gone or stuck."""
        for child in self._processes:
            child.check()
        self._read_log()
        if time.monotonic() - self._audited > AUDIT_INTERVAL:
            self._audit.read()
            self._audited = time.monotonic()
        if self._progress.idle > STUCK:
            raise RunFailed(STOP.format(STUCK))
        time.sleep(POLL_INTERVAL)

    def _read_log(self) -> None:
        lines = self._reader.new_lines()
        self._history.add(lines)
        self._progress.add(lines)
        if self._log is not None:
            write_lines(self._log, lines)
