"""Start a Python process of the product, read what it says, and kill it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import psutil

from tests.support.fork_server import ForkedProcess, can_fork
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping


class PythonProcess:
    """A child `python …` with its output, standard output and error together, in a file.

    Each argument of print() is a write of its own here: where several threads or processes
    print, or log, one string is printed, so that the output of another does not come into it.
    """

    def __init__(
        self, *args: str, env: Mapping[str, str] | None = None, fresh: bool = False
    ) -> None:
        """Start `python *args` (as `"-m", "pgqpy", …` or `"-c", code`) with `env` added.

        It is forked from a process that has imported pgqpy, unless it is to be a fresh one.
        """
        self._file = tempfile.TemporaryFile("w+b")  # noqa: SIM115  # closed by close()
        kind = subprocess.Popen if fresh or not can_fork(args, env or {}) else ForkedProcess
        self.popen: subprocess.Popen[Any] = kind(
            [sys.executable, "-u", *args],
            stdin=subprocess.DEVNULL,
            stdout=self._file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
        )

    @property
    def pid(self) -> int:
        """The process id."""
        return self.popen.pid

    def output(self) -> str:
        """Return what it has printed so far."""
        size = os.fstat(self._file.fileno()).st_size
        return os.pread(self._file.fileno(), size, 0).decode(errors="replace")

    def wait_for_output(self, text: str, timeout: float = 30) -> str:
        """Wait until `text` has been printed and return the output; fails at once if it exits."""

        def printed() -> bool:
            ended = self.popen.poll()
            if text in self.output():
                return True
            if ended is not None:
                message = f"exit code {ended} before it printed {text!r}:\n{self.output()}"
                raise RuntimeError(message)
            message = f"it has not printed {text!r}, but:\n{self.output()}"
            raise AssertionError(message)

        eventually(printed, timeout)
        return self.output()

    def signal(self, number: int) -> None:
        """Send a signal (SIGTERM, SIGINT, SIGSTOP, SIGCONT, …)."""
        self.popen.send_signal(number)

    def wait_until_asleep(self) -> None:
        """Wait until its main thread sleeps.

        A client that a gate holds up waits for the answer then, with its pipeline sent.
        """
        process = psutil.Process(self.pid)
        eventually(lambda: process.status() == psutil.STATUS_SLEEPING)

    def kill(self) -> None:
        """Kill it with SIGKILL and wait until it is gone; safe when it has ended already."""
        self.popen.kill()
        self.popen.wait()

    def terminate(self, timeout: float = 30) -> int:
        """Ask it to stop by SIGTERM and return its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def wait(self, timeout: float = 30) -> int:
        """Return its exit code (negative: the signal); fails with its output after `timeout` s."""
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            message = f"still running after {timeout} s, it printed:\n{self.output()}"
            raise AssertionError(message) from None

    def close(self) -> None:
        """Kill it if it still runs and forget its output."""
        self.kill()
        self._file.close()
