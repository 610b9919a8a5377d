"""Child processes of a demo or simulation: none is left behind."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pgqpy import sandbox
from pgqpy.sandbox import Child, interruptible
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.processes import PythonProcess

PARENT = """
import os, pathlib, sys
from pgqpy.sandbox import Child
command = ["sh", "-c", "sleep 600 & echo $!; wait"]
child = Child("child", command, os.environ, pathlib.Path(sys.argv[1]))
print("started", flush=True)
child.wait(600)
"""
STEP = 4  # calls from one interruption to the next
CALLS_OF_A_WAIT = 20  # of C functions: about three polls


def test_what_a_child_has_started_is_killed_with_it_if_the_parent_is_killed(
    spawn: Callable[..., PythonProcess], tmp_path: Path
) -> None:
    parent = spawn("-c", PARENT, str(tmp_path))
    parent.wait_for_output("started")
    grandchild = psutil.Process(int(eventually((tmp_path / "child.log").read_text)))
    try:
        parent.kill()
        eventually(lambda: not grandchild.is_running())
    finally:
        if grandchild.is_running():
            grandchild.kill()


@contextmanager
def signal_after(calls: int) -> Iterator[None]:
    """Send SIGINT to this process after so many calls of C functions, if there are so many.

    They are some of the places where Python runs signal handlers.
    """
    left = iter(range(calls))

    def count(_frame: Any, event: str, _function: Any) -> None:
        if event == "c_return" and next(left, None) is None:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(before)


def processes(mark: str) -> list[psutil.Process]:
    everybody = psutil.process_iter(["cmdline"])  # leaves out processes that end meanwhile
    return [process for process in everybody if mark in (process.info["cmdline"] or ())]


def test_interruption_after_any_call_leaves_no_process_behind(tmp_path: Path) -> None:
    mark = str(tmp_path)
    command = ["sh", "-c", 'sh -c "sleep 600; :" "$0" & wait', mark]
    for calls in itertools.count(random.randrange(STEP), STEP):
        try:
            with interruptible(), signal_after(calls), Child("child", command, {}, tmp_path):
                pass
        except KeyboardInterrupt:
            eventually(lambda: not processes(mark))
        else:
            break
    assert calls > 50  # to start and kill a child takes more than a hundred


def test_interruption_after_any_call_of_a_wait_lets_it_be_waited_for(tmp_path: Path) -> None:
    child = Child("child", ["sleep", "600"], {}, tmp_path)
    for calls in range(CALLS_OF_A_WAIT):
        with pytest.raises(KeyboardInterrupt), interruptible(), signal_after(calls):
            child.wait(600)
    os.kill(child.pid, signal.SIGKILL)
    eventually(lambda: not child.running)  # no `wait`: it would hang
    assert child.stop() == -signal.SIGKILL


def test_child_that_gets_no_guard_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_arguments: str) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(sandbox, "start_guard", fails)
    with pytest.raises(OSError, match="no more processes"):
        Child("child", ["sh", "-c", "sleep 600; :", str(tmp_path)], {}, tmp_path)
    assert not processes(str(tmp_path))


KILLED_AS_IT_STARTS = """
import os, signal, subprocess, sys
from pathlib import Path
from pgqpy.sandbox import Child

left = int(sys.argv[1])
start = subprocess.Popen.__init__

def starts(self, *arguments, **options):
    global left
    start(self, *arguments, **options)
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)

subprocess.Popen.__init__ = starts
Child("child", ["sh", "-c", "sleep 600; :", sys.argv[2]], {}, Path(sys.argv[2]))
"""


@pytest.mark.parametrize("started", [1, 2])
def test_we_are_killed_as_a_child_starts_and_nothing_stays(tmp_path: Path, started: int) -> None:
    mark = str(tmp_path)
    command = [sys.executable, "-c", KILLED_AS_IT_STARTS, str(started), mark]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    eventually(lambda: not processes(mark))
