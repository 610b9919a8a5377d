"""The demo's processes: started with a log each, ended by their process ids, whatever happens."""

from __future__ import annotations

import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pgqpy.demo.errors import DemoFailed
from pgqpy.demo.signals import held

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

STOP_TIMEOUT = 30  # seconds from SIGTERM to SIGKILL; on a busy machine Python ends slowly
LOG_TAIL = 12  # lines
# The guard outlives us if we die by SIGKILL: its standard input then ends.
GUARD = 'read -r _; kill -KILL "$1"'


class Child:
    """One process, and a guard that kills it should this process be killed."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], logs: Path
    ) -> None:
        """Start it. Its output goes to a file of its name in the folder `logs`."""
        self.name = name
        self.log = logs / f"{name}.log"
        with held(), self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us: we end it in order
            )
            self._guard = _guard(self._process.pid)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill it with SIGKILL and wait until it is gone; safe when it has ended."""
        if self.running:
            self._process.kill()
        self._reap()

    def stop(self) -> int:
        """Ask it to end by SIGTERM, kill it if it does not; return its exit code."""
        if self.running:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
        return self._reap()

    def wait(self, timeout: float) -> int:
        """Return the exit code of a process that ends by itself; DemoFailed after the timeout."""
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise DemoFailed(f"{self.name} did not end within {timeout:.0f} s") from None
        return self._reap()

    def output(self) -> str:
        """Return what it has printed."""
        return self.log.read_text(errors="replace")

    def check(self) -> None:
        """Raise DemoFailed, with the end of its log, if it has ended."""
        code = self._process.poll()
        if code is not None:
            raise self.failure(f"ended with exit code {code}")

    def failure(self, what: str) -> DemoFailed:
        """Return the error that says what it did, with the end of its log."""
        tail = "\n".join(self.output().splitlines()[-LOG_TAIL:])
        return DemoFailed(f"the {self.name} {what}:\n{tail}")

    def _reap(self) -> int:
        # The guard goes first: once the child is waited for, its number may belong to another.
        if self._guard.poll() is None:
            self._guard.kill()
        self._guard.communicate()
        return self._process.wait()


def _guard(pid: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["/bin/sh", "-c", GUARD, "guard", str(pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


@contextmanager
def running(child: Child) -> Iterator[Child]:
    """Kill a process at the end of the block, should it still run."""
    try:
        yield child
    finally:
        child.kill()
