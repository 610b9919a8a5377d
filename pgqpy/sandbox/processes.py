"""Child processes, none of which outlives the process that started it, and signals.

Ctrl-C, SIGTERM and SIGHUP interrupt a command once, and never while it starts a process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from pgqpy.child_processes import start_guard
from pgqpy.errors import PgqError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from typing_extensions import Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class RunFailed(PgqError):
    """The demo or simulation could not be run to its end."""


class _State:
    """The signal handler's state; one for the process, as signal handlers are."""

    held = 0  # blocks that postpone an interruption, one inside the other
    waiting = False  # a signal has come during them


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn the first signal into KeyboardInterrupt, and ignore further ones."""
    before = {number: signal.signal(number, _interrupt) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def postponed() -> Iterator[None]:
    """Postpone an interruption to the end of the block, so that what it started can be stopped.

    The interruption replaces an error of the block: Ctrl-C reaches children too and may be its
    cause.
    """
    _State.held += 1
    try:
        yield
    finally:
        _State.held -= 1
        if _State.waiting and not _State.held:
            _State.waiting = False
            raise KeyboardInterrupt


def ignore_signals() -> None:
    """Ignore the signals from now on: stopping and removing everything takes seconds."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _interrupt(_number: int, _frame: Any) -> None:
    ignore_signals()
    if _State.held:
        _State.waiting = True
    else:
        raise KeyboardInterrupt


STOP_TIMEOUT = 30  # seconds from SIGTERM to SIGKILL; on a busy machine Python ends slowly
POLL_INTERVAL = 0.02  # seconds
LOG_TAIL = 12  # lines


class Child:
    """A child process, killed at the end of a `with` block, or by a guard if we are killed.

    What it has started in its process group, such as Spark's Java, is killed with it.
    Its output goes to the file `name`.log in the folder `logs`.

    Inside `interruptible()`, an interruption is postponed while a method of Popen runs. In the
    middle of `poll` or `wait` it would leave Popen's lock held, and the next `wait` would hang.
    """

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], logs: Path
    ) -> None:
        """Start the process."""
        self.name = name
        self.log = logs / f"{name}.log"
        try:
            with postponed(), self.log.open("ab") as log:
                self._process = subprocess.Popen(
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # Ctrl-C reaches the parent only, which then stops it
                )
                self.pid = self._process.pid
                try:
                    self._guard = start_guard('kill -s KILL -- "-$1"', str(self.pid))
                except OSError:
                    self._process.kill()
                    self._process.wait()
                    raise
        except KeyboardInterrupt:
            if hasattr(self, "_guard"):  # False: the start failed, and no process runs
                self.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.kill()
        except KeyboardInterrupt:
            self.kill()  # it may not have begun; no second interruption comes
            raise

    @property
    def running(self) -> bool:
        """Whether the process still runs."""
        with postponed():
            return self._process.poll() is None

    def kill(self) -> None:
        """Kill the process with SIGKILL and wait for its end; safe after its end."""
        with postponed():
            self._process.kill()
            # The guard first: after the wait the process id may belong to another process.
            first = self._guard.poll() is None
            self._guard.kill()
            self._guard.communicate()
            self._process.wait()
            if first:  # later the group's id may be another one's
                with suppress(ProcessLookupError):  # no process of its group is left
                    os.killpg(self.pid, signal.SIGKILL)

    def stop(self) -> int:
        """Stop the process by SIGTERM, by SIGKILL after a timeout; return its exit code."""
        with postponed():
            self._process.send_signal(signal.SIGTERM)
        self._ends_within(STOP_TIMEOUT)
        self.kill()
        return self._process.returncode

    def wait(self, timeout: float) -> int:
        """Wait for the process to end; return its exit code. RunFailed after the timeout."""
        if not self._ends_within(timeout):
            raise RunFailed(f"{self.name} did not end within {timeout:.0f} s")
        self.kill()
        return self._process.returncode

    def output(self) -> str:
        """Return what the process has printed so far."""
        return self.log.read_text(errors="replace")

    def check(self) -> None:
        """Raise RunFailed, with the end of the log, if the process has ended."""
        if not self.running:
            raise self.failure(f"ended with exit code {self._process.returncode}")

    def failure(self, what: str) -> RunFailed:
        """Return an error that says `what` the process did, with the end of its log."""
        tail = "\n".join(self.output().splitlines()[-LOG_TAIL:])
        return RunFailed(f"the {self.name} {what}:\n{tail}")

    def _ends_within(self, timeout: float) -> bool:
        """Wait for the process to end; say whether it has."""
        deadline = time.monotonic() + timeout
        while self.running:
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_INTERVAL)
        return True
