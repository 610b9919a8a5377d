"""The processes of a benchmark: start them, ask them, end them with the block."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, cast

from benchmarks.figures import Wrong

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.load.schedule import Schedule

ROOT = Path(__file__).parents[2]
POLL = 0.05  # seconds


class Answering(Protocol):
    """An object that answers questions: a process, or a test's stand-in."""

    def ask(self, question: str, /) -> Any:
        """Return the answer."""
        ...


class Child:
    """A process that answers a line with a line, or prints JSON when it is done."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Take a process whose standard streams are pipes."""
        self.process = process

    def ask(self, question: str) -> Any:
        """Send a line and return the answer, decoded from JSON."""
        question_pipe, answers = cast("IO[str]", self.process.stdin), self.process.stdout
        try:
            question_pipe.write(question + "\n")
            question_pipe.flush()
        except BrokenPipeError:
            raise self._ended() from None
        answer = cast("IO[str]", answers).readline()
        if not answer:
            raise self._ended()
        return json.loads(answer)

    def result(self, timeout: float) -> Any:
        """Wait until it is done and return what it printed, decoded from JSON."""
        printed = self.process.communicate(timeout=timeout)[0]
        if self.process.returncode:
            raise self._ended()
        return json.loads(printed)

    def _ended(self) -> Wrong:
        command = " ".join(cast("list[str]", self.process.args)[1:3])
        return Wrong(f"{command} ended with code {self.process.wait()}; what it said is above")


@contextmanager
def child(*command: str) -> Iterator[Child]:
    """Run a program for as long as the block lasts."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        yield Child(process)
    finally:
        process.terminate()
        process.communicate()


def module(name: str, *arguments: object) -> tuple[str, ...]:
    """Return the command that runs a module of this package."""
    return (sys.executable, "-m", f"benchmarks.load.{name}", *map(str, arguments))


def wait_for(arrivals: Answering, count: int, seconds: float) -> bool:
    """Wait until this number of events has arrived; False after the timeout."""
    deadline = time.monotonic() + seconds
    while arrivals.ask("count") < count:
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL)
    return True


@contextmanager
def producers(peer: str, dsn: str, queue: str, schedule: Schedule) -> Iterator[list[Child]]:
    """Run the schedule's producers side by side."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                child(*module("produce", peer, dsn, queue, *schedule._replace(number=number)))
            )
            for number in range(schedule.producers)
        ]
