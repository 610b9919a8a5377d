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


def test_process_without_room_for_files_goes_on_listening(
    queue: pgqpy.Client, dsn: str, spawn: Callable[..., Any]
) -> None:
    process = spawn("-c", OUT_OF_FILES, env={"PGQPY_DSN": dsn})
    process.wait_for_output("no more files")
    fill(queue, "a")
    assert "then listens" in process.wait_for_output("then")
