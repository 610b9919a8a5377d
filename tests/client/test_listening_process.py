"""The connection that listens for a process: its end, forks, and no room for files."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import pgqpy
from tests.client.test_listening import fill
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("billing_is_shared")

WAITS_AT_EXIT = """
import os, sys, threading, pgqpy
from pgqpy.client import listening
client = pgqpy.connect(os.environ["PGQPY_DSN"])
def wait():
    client.receive("orders", "billing", wait=600)
threading.Thread(target=wait, daemon=True).start()
while not any(each._channels for each in list(listening._listeners.values())):
    pass
"""
FORKS = (
    WAITS_AT_EXIT
    + """
child = os.fork()
if child == 0:
    with pgqpy.connect(os.environ["PGQPY_DSN"]) as client:
        found = client.receive("orders", "billing", wait=600)
        print("child got " + found[0].event.data)
else:
    print(f"forked {child}")
threading.Event().wait()
"""
)

# The thread has connected, and goes on only when the fork has begun.
FORKS_EARLY = """
import os, threading
import pgqpy, pgqpy.client
from pgqpy.client import listening

open_session, begun, forks = pgqpy.client.open_session, threading.Event(), threading.Event()
made = []

def opens(*args, **kwargs):
    made.append(open_session(*args, **kwargs))
    begun.set()
    forks.wait()
    return made[0]

pgqpy.client.open_session = opens
os.register_at_fork(before=forks.set)  # called before the ones that are there
client = pgqpy.connect(os.environ["PGQPY_DSN"])
wait = lambda: client.receive("orders", "billing", wait=600)
threading.Thread(target=wait, daemon=True).start()
begun.wait()
child = os.fork()
if child == 0:
    file = os.readlink(f"/proc/self/fd/{made[0].fileno()}")
    print(f"child has {file}", flush=True)
    os._exit(0)
os.waitpid(child, 0)
print("parent has", os.readlink(f"/proc/self/fd/{made[0].fileno()}"), flush=True)
os._exit(0)
"""

OUT_OF_FILES = (
    WAITS_AT_EXIT
    + """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
(listener,) = listening._listeners.values()
print("no more files")
while listener._waits:
    pass
print("then listens" if listener._thread.is_alive() else "then has died")
"""
)


def test_process_that_ends_while_a_thread_waits_says_nothing(
    queue: pgqpy.Client,
    dsn: str,
    spawn: Callable[..., Any],
    sessions: Callable[[], list[int]],
) -> None:
    process = spawn("-c", WAITS_AT_EXIT, env={"PGQPY_DSN": dsn})
    assert process.wait() == 0
    assert process.output() == ""
    eventually(lambda: sessions() == [])


def test_forked_child_keeps_no_session_open_and_waits_with_its_own(
    queue: pgqpy.Client,
    dsn: str,
    spawn: Callable[..., Any],
    sessions: Callable[[], list[int]],
) -> None:
    process = spawn("-c", FORKS, env={"PGQPY_DSN": dsn})
    child = int(process.wait_for_output("forked").split("forked ")[1].split()[0])
    try:
        first, second = eventually(lambda: sessions() if len(sessions()) == 2 else [])
        process.kill()
        (left,) = eventually(lambda: sessions() if len(sessions()) == 1 else [])
        assert left in (first, second)
        fill(queue, "a")
        eventually(lambda: "child got a" in process.output())
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def test_child_forked_while_a_session_is_opened_does_not_keep_it(
    queue: pgqpy.Client, dsn: str, spawn: Callable[..., Any]
) -> None:
    process = spawn("-c", FORKS_EARLY, env={"PGQPY_DSN": dsn})
    process.wait_for_output("parent has socket")
    assert "child has /dev/null" in process.output()


def test_process_without_room_for_files_goes_on_listening(
    queue: pgqpy.Client, dsn: str, spawn: Callable[..., Any]
) -> None:
    process = spawn("-c", OUT_OF_FILES, env={"PGQPY_DSN": dsn})
    process.wait_for_output("no more files")
    fill(queue, "a")
    assert "then listens" in process.wait_for_output("then")
