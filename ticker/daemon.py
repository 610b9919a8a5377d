"""The daemon as a whole: a tick loop and a mover for each database, timers, web and signals."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from threading import Event, Thread, current_thread, main_thread
from typing import TYPE_CHECKING, Any

from pgqpy.errors import ConnectionFailed
from pgqpy.texts import printable
from pgqpy.ticker import logs, session
from pgqpy.ticker.logs import Report
from pgqpy.ticker.loop import Mover, TickLoop
from pgqpy.ticker.metrics import TickerMetrics
from pgqpy.ticker.periodic import Timers, duties_of
from pgqpy.ticker.session import Database
from pgqpy.ticker.web import CannotListen, Health, Web, overall

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from structlog.typing import FilteringBoundLogger

    from pgqpy.ticker.settings import TickerSettings

SEND_TIMEOUT = 1.0  # seconds; a service manager that does not read must not block the daemon


def notify(state: str) -> bool:
    """Send a state such as "READY=1" to the service manager; return False if none listens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]  # an abstract socket
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.settimeout(SEND_TIMEOUT)
        sock.connect(address)
        sock.sendall(state.encode())
        return True
    return False


class ManagerStatus:
    """Sends READY=1 once, and STATUS whenever it changes."""

    def __init__(self) -> None:
        self._ready = False
        self._status = ""

    def tell(self, healths: Sequence[Health]) -> None:
        """Send the state of each database, and READY=1 as soon as one database has answered."""
        status = "; ".join(
            f"{health.database}: {health.role}" + (f", {health.reason}" if health.reason else "")
            for health in healths
        )
        status = printable(status)  # a line break would begin another message
        if not self._ready and any(health.role != "connecting" for health in healths):
            self._ready = notify(f"READY=1\nSTATUS={status}")
        elif status != self._status:
            notify(f"STATUS={status}")
        self._status = status


def watchdog_interval() -> float | None:
    """Return the seconds between two WATCHDOG=1 messages; None if no watchdog is set.

    It is half of the time after which the service manager restarts the daemon.
    """
    usec = os.environ.get("WATCHDOG_USEC", "")
    ours = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    return int(usec) / 2_000_000 if ours and usec.isdigit() and int(usec) else None


FAILED, WRONG_USAGE = 1, 2  # exit codes
STOP_TIMEOUT = 0.3  # seconds for loops and duties to end by themselves
BREAK_TIMEOUT = 0.15  # seconds more, after their sessions are broken off
SIGNAL_CHECK = 0.5  # seconds
STOPPERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # SIGHUP too: there is no file to reload
STALE = 60.0  # seconds: with a loop that made no round for so long, systemd gets no WATCHDOG=1


class Ticker:
    """The ticker daemon of one or many databases: start, stop, run.

    Stopping twice, or before starting, is safe; a ticker that was stopped is not started again.

        ticker = Ticker(TickerSettings(dsns=("dbname=orders",)))
        ticker.start()
        …
        ticker.stop()
    """

    def __init__(
        self, settings: TickerSettings, *, log: FilteringBoundLogger | None = None
    ) -> None:
        """Check the connection strings; `start` connects.

        Raises ConnectionFailed if a connection string cannot be parsed.
        """
        labels = session.labels(settings.databases)
        self.settings = settings
        self.log = logs.make_logger(settings) if log is None else logs.suppress_errors(log)
        self.metrics = TickerMetrics()
        self.hangs = False  # after `stop`: whether a thread still waits for a server
        self._stopping = Event()
        self._stop_asked: SimpleQueue[None] = SimpleQueue()
        self._sessions = session.Sessions()
        databases = list(map(self._database, settings.databases, labels))
        self._healths = [each.health for each in databases]
        self._timings = [each.timing for each in databases]
        self._threads = [
            Thread(target=target, name=f"{name} {each.health.database}", daemon=True)
            for each in databases
            for name, target in (("tick", TickLoop(each).run), ("move", Mover(each).run))
        ]
        self._timers = Timers(duty for each in databases for duty in duties_of(each))
        self._web = Web(
            settings.http_host,
            settings.http_port,
            health=self.health,
            registry=self.metrics.registry,
        )

    def start(self) -> None:
        """Begin to serve the databases, and return without waiting for them.

        Raises CannotListen if the HTTP address is not available.
        """
        http = self._web.start()
        databases = [health.database for health in self._healths]
        self.log.info("started", pid=os.getpid(), databases=databases, http=http)
        for thread in self._threads:
            thread.start()
        self._timers.start()

    def stop(self) -> None:
        """Stop within a second: loops and duties may end, and hanging sessions are broken off."""
        self._stop_asked.put(None)
        self._stopping.set()
        for timing in self._timings:
            timing.ticked.set()
        self._timers.stop()
        self._web.stop()
        if not self._ended(STOP_TIMEOUT):
            self._sessions.break_off()
            self.hangs = not self._ended(BREAK_TIMEOUT)
        if not self.hangs:
            self._sessions.close()  # duties keep sessions between their runs

    def run(self) -> int:
        """Serve until SIGTERM, SIGINT or SIGHUP, or until another thread calls `stop`; return 0.

        It restores the handlers of the signals.
        """
        with self._signals_caught():
            self.start()
            manager = ManagerStatus()
            watchdog = watchdog_interval()
            while not self._waited(min(SIGNAL_CHECK, watchdog or SIGNAL_CHECK)):
                manager.tell(self._healths)
                if watchdog:
                    self._feed_watchdog()
            notify("STOPPING=1")
            self.stop()
            self.log.info("stopped")
        return 0

    def health(self) -> tuple[int, dict[str, Any]]:
        """Return the HTTP status and body of /healthz."""
        return overall(self._healths, time.monotonic(), self.settings.health_limit)

    def _database(self, dsn: str, label: str) -> Database:
        health = Health(label)
        self.metrics.watch(health)
        report = Report(label, self.log, self.metrics)
        return Database(dsn, self.settings, health, report, self._sessions, self._stopping)

    def _ended(self, timeout: float) -> bool:
        """Wait for loops and duties to end; say whether all have."""
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            if thread.is_alive() and thread is not current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))
        loops_ended = not any(thread.is_alive() for thread in self._threads)
        return self._timers.join(deadline) and loops_ended

    @contextmanager
    def _signals_caught(self) -> Iterator[None]:
        """Handle STOPPERS during the block; Python allows that in the main thread only."""
        numbers = list(STOPPERS) if current_thread() is main_thread() else []
        if numbers and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
            numbers.remove(signal.SIGHUP)  # nohup
        before = {number: signal.signal(number, self._signalled) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                # None: a handler that was not set by Python, and that Python cannot set.
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _signalled(self, _number: int, _frame: FrameType | None) -> None:
        # Event.set() could deadlock: the handler interrupts the main thread, which may hold the
        # event's lock. SimpleQueue.put() is safe in a handler.
        self._stop_asked.put(None)

    def _waited(self, seconds: float) -> bool:
        """Wait for a request to stop, at most `seconds`; say whether one came.

        The wait must be bounded. A signal that arrives in another thread, or a moment before the
        wait, does not interrupt it, and its handler runs only after the wait.
        """
        with suppress(Empty):
            self._stop_asked.get(timeout=seconds)
            return True
        return False

    def _feed_watchdog(self) -> None:
        """Send WATCHDOG=1 unless a loop is stuck.

        A database that is down does not count: a restart of the daemon would not help it, and
        would interrupt the others.
        """
        now = time.monotonic()
        if all(now - health.alive_at < STALE for health in self._healths):
            notify("WATCHDOG=1")


def run(settings: TickerSettings) -> int:
    """Run the daemon as a process until a signal stops it; return the exit code.

    0: stopped; 1: the HTTP address is not available; 2: a connection string cannot be parsed. A
    database that does not answer is no failure: the daemon tries again.
    """
    try:
        ticker = Ticker(settings)
        code = ticker.run()
    except (ConnectionFailed, CannotListen) as exc:
        print(f"pgqpy ticker: {exc}", file=sys.stderr)  # noqa: T201  # before there is a log
        return WRONG_USAGE if isinstance(exc, ConnectionFailed) else FAILED
    if ticker.hangs:
        # A thread waits for a server that does not answer. The normal exit of the interpreter
        # would wait for the thread, or end it while it holds locks of libpq.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code
