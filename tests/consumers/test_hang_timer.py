"""The end of a process whose handler hangs: certain, and only while a handler runs."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress

import pytest

from tests.support.fork_server import ForkedProcess

WATCH = """
import logging, os, re, signal, threading
from types import SimpleNamespace
from pgqpy.consumers import handler_watch
from pgqpy.consumers.handler_watch import HandlerWatch
from pgqpy.consumers.handler_watch import timer
from tests.support.waiting import eventually

handler_watch.LOG_TIME, handler_watch.WATCH_INTERVAL = 1.0, 0.01
logging.basicConfig()
consumer = SimpleNamespace(name="billing", queue="orders", is_shared=False)
"""
HANGS = """
watch = HandlerWatch(consumer, 0.1)
watch.start()
with watch.handling("event 1"):
    {}
"""
WAITS = "threading.Event().wait()"
KEEPS_THE_LOCK = 're.match("(a+)+$", "a" * 60 + "b")'
LOCKED_LOG = "logging.getLogger().handlers[0].acquire(); " + WAITS


def run(code: str, stderr: int = subprocess.PIPE) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-u", "-c", WATCH + code]
    with ForkedProcess(command, stdout=subprocess.PIPE, stderr=stderr) as process:
        out, said = process.communicate(timeout=30)
    return subprocess.CompletedProcess(command, process.returncode, out, said)


def test_handler_that_hangs_ends_the_process_although_nobody_reads_its_log():
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b".")
    os.set_blocking(writer, True)
    assert run(HANGS.format(WAITS), writer).returncode == 1
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("handler", [WAITS, KEEPS_THE_LOCK, LOCKED_LOG])
def test_process_that_is_ended_shows_where_its_handler_hangs(handler):
    done = run(HANGS.format(handler))
    assert done.returncode == 1
    assert b'File "<string>", line' in done.stderr
    assert (b"event 1 has run for" in done.stderr) == (handler == WAITS)


@pytest.mark.parametrize(
    ("shared", "after"), [(False, b"5 crashes."), (True, b"3 crashes with nothing else in hand.")]
)
def test_log_says_after_how_many_crashes_the_event_is_dead(shared, after):
    assert (
        b"dead after " + after in run(f"consumer.is_shared = {shared}" + HANGS.format(WAITS)).stderr
    )


ARMED = """
def armed():
    return len(os.listdir("/proc/self/task")) > threading.active_count()

watch, other = HandlerWatch(consumer, 60), HandlerWatch(consumer, 60)
watch.start(), other.start()
eventually(lambda: not armed())
with watch.handling("event 1"):
    eventually(armed)
    with other.handling("event 2"):
        pass
    other.close()
    assert armed()
eventually(lambda: not armed())
with watch.handling("event 3"):
    watch.close()
eventually(lambda: threading.active_count() == 1 and not armed())
with watch.handling("event 4"):
    assert not armed()
"""


def test_timer_of_an_idle_consumer_does_not_run():
    """It would go on while the process is stopped, and end it."""
    done = run(ARMED)
    assert done.returncode == 0, done.stderr


FORKS = """
watch = HandlerWatch(consumer, 60)
with watch.handling("event 1"):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        with HandlerWatch(consumer, 60).handling("in the child"):
            pass
        os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert timer._ends
os._exit(ended)
"""


def test_child_of_a_handler_may_have_a_timer_of_its_own():
    done = run(FORKS)
    assert done.returncode == 0, done.stderr
