"""Spark's processes: whole sessions to kill, executors, and a cluster of one's own on loopback."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pyspark

from tests.support.processes import PythonProcess
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SPARK_HOME = Path(pyspark.__file__).parent
EXECUTOR = "CoarseGrainedExecutorBackend"
START_TIMEOUT = 300  # seconds; several Sparks may start at once on two cores


class SessionProcess(PythonProcess):
    """A process of any program and all it starts, in a session of its own."""

    def __init__(
        self, *command: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        self._file = tempfile.TemporaryFile("w+b")  # noqa: SIM115  # closed by close()
        self.popen = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            start_new_session=True,
        )

    @property
    def running(self) -> bool:
        """Whether the process that was started still runs."""
        return self.popen.poll() is None

    def wait_for_match(self, pattern: str, times: int = 1) -> re.Match[str]:
        """Wait until it has printed this so often; fails at once if it exits."""

        def printed() -> bool:
            ended = not self.running
            if len(re.findall(pattern, self.output())) >= times:
                return True
            if ended:
                raise RuntimeError(f"it ended before it printed {pattern!r}:\n{self.output()}")
            return False

        eventually(printed, START_TIMEOUT, interval=0.05)
        found = re.search(pattern, self.output())
        assert found is not None
        return found

    def members(self) -> list[psutil.Process]:
        """Return all processes of the session, also those whose parents are gone."""
        return [process for process in psutil.process_iter() if _session(process) == self.pid]

    def kill(self) -> None:
        """Kill all of them as a power cut would: at one moment, and nobody gets to clean up."""
        while members := self.members():
            for act in (psutil.Process.suspend, psutil.Process.kill):
                for process in members:
                    with suppress(psutil.NoSuchProcess):
                        act(process)
            self.popen.poll()
        self.popen.wait()

    def executors(self) -> list[psutil.Process]:
        """Return the executors among the processes of the session."""
        return [process for process in self.members() if EXECUTOR in _command(process)]


def _session(process: psutil.Process) -> int | None:
    """Return the session that a process belongs to; None if it is gone, or dead and unburied."""
    with suppress(psutil.NoSuchProcess, ProcessLookupError):
        if process.status() != psutil.STATUS_ZOMBIE:
            return os.getsid(process.pid)
    return None


def _command(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        return " ".join(process.cmdline())
    return ""


class Standalone:
    """A master and two workers."""

    def __init__(self, master: SessionProcess, url: str, workers: list[SessionProcess]) -> None:
        self.master, self.url, self.workers = master, url, workers

    def executors(self) -> list[psutil.Process]:
        """Return the executors that the workers have started."""
        return [process for worker in self.workers for process in worker.executors()]


@contextmanager
def standalone(folder: Path, env: Mapping[str, str]) -> Iterator[Standalone]:
    """Run a master and two workers on loopback for as long as the block lasts."""
    program = str(SPARK_HOME / "bin" / "spark-class")
    own = {**env, "SPARK_LOCAL_DIRS": str(folder / "scratch"), "SPARK_NO_DAEMONIZE": "1"}
    loopback = ("--host", "127.0.0.1", "--webui-port", "0")

    def start(what: str, *args: str) -> SessionProcess:
        process = SessionProcess(
            program, f"org.apache.spark.deploy.{what}", *loopback, *args, env=own
        )
        started.append(process)
        return process

    started: list[SessionProcess] = []
    try:
        master = start("master.Master", "--port", "0")
        url = master.wait_for_match(r"Starting Spark master at (spark://\S+)")[1]
        size = ("--cores", "1", "--memory", "1g")
        workers = [
            start("worker.Worker", *size, "--work-dir", str(folder / f"worker{number}"), url)
            for number in range(2)
        ]
        master.wait_for_match("Registering worker", times=2)
        yield Standalone(master, url, workers)
    finally:
        for process in reversed(started):
            process.close()
