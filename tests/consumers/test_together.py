"""Runs in threads, side by side."""

from __future__ import annotations

import signal
import sys
import threading
from typing import Any

from pgqpy.consumers.together import run_together
from tests.support.waiting import eventually


def main_thread_joins():
    """Whether the main thread waits for the end of another one."""
    frame: Any = sys._current_frames()[threading.main_thread().ident or 0]
    while frame is not None and frame.f_code is not threading.Thread.join.__code__:
        frame = frame.f_back
    return frame is not None


def test_a_signal_that_goes_to_another_thread_is_heard_while_all_run():
    """As one does that came while the process was stopped."""
    heard = threading.Event()

    def run():
        eventually(main_thread_joins)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        assert heard.wait(5)

    before = signal.signal(signal.SIGUSR1, lambda *_: heard.set())
    try:
        assert run_together({"one": run}) == {}
    finally:
        signal.signal(signal.SIGUSR1, before)
