"""Child processes. Each has a log file, and none outlives the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

from pgqpy.guards import start_guard
from pgqpy.sandbox.abort import RunFailed, postponed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from typing_extensions import Self

STOP_TIMEOUT = 30  # seconds from SIGTERM to SIGKILL; on a busy machine Python ends slowly
LOG_TAIL = 12  # lines


class Child:
    """A child process, killed at the end of a `with` block, or by a guard if we are killed.

    What it has started in its process group, such as Spark's Java, is killed with it.
    Its output goes to the file `name`.log in the folder `logs`.
    """

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], logs: Path
    ) -> None:
        """Start the process."""
        self.name = name
        self.log = logs / f"{name}.log"
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
            self._guard = start_guard('kill -s KILL -- "-$1"', str(self.pid))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def running(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill the process with SIGKILL and wait for its end; safe after its end."""
        self._process.kill()
        self._reap()

    def stop(self) -> int:
        """Stop the process by SIGTERM, by SIGKILL after a timeout; return its exit code."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
        return self._reap()

    def wait(self, timeout: float) -> int:
        """Wait for the process to end; return its exit code. RunFailed after the timeout."""
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise RunFailed(f"{self.name} did not end within {timeout:.0f} s") from None
        return self._reap()

    def output(self) -> str:
        """Return what the process has printed so far."""
        return self.log.read_text(errors="replace")

    def check(self) -> None:
        """Raise RunFailed, with the end of the log, if the process has ended."""
        code = self._process.poll()
        if code is not None:
            raise self.failure(f"ended with exit code {code}")

    def failure(self, what: str) -> RunFailed:
        """Return an error that says `what` the process did, with the end of its log."""
        tail = "\n".join(self.output().splitlines()[-LOG_TAIL:])
        return RunFailed(f"the {self.name} {what}:\n{tail}")

    def _reap(self) -> int:
        # The guard first: after the wait the child's process id may belong to another process.
        first = self._guard.poll() is None
        self._guard.kill()
        self._guard.communicate()
        code = self._process.wait()
        if first:  # later the group's id may be another one's
            with suppress(ProcessLookupError):  # no process of its group is left
                os.killpg(self.pid, signal.SIGKILL)
        return code
