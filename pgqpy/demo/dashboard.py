"""The dashboard beside the demo: a process of its own, on a free port of this machine."""

from __future__ import annotations

import re
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pgqpy.own_process import own_process
from pgqpy.sandbox.abort import RunFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgqpy.demo.database import DemoDatabase
    from pgqpy.sandbox.processes import Child
    from pgqpy.sandbox.view import View

START_TIMEOUT = 60  # seconds until it listens
LOOK_INTERVAL = 0.1  # seconds
DASHBOARD = own_process("pgqpy", "dashboard", "--host", "127.0.0.1", "--port", "0")
ADDRESS = re.compile(r"^dashboard: (http://\S+/)$", re.MULTILINE)


@contextmanager
def dashboard(database: DemoDatabase, view: View) -> Iterator[Child]:
    """Serve the dashboard of the demo's database during the block; say its URL."""
    with database.start("dashboard", DASHBOARD) as child:
        view.say(f"the dashboard: {_wait_for_url(child)}")
        yield child


def on_terminal() -> bool:
    """Say whether somebody sees the output, and can press Ctrl-C."""
    return sys.stdout.isatty() and sys.stderr.isatty()


def stay(child: Child) -> None:
    """Return at Ctrl-C, and if the dashboard ends."""
    try:
        while child.running:
            time.sleep(LOOK_INTERVAL)
    except KeyboardInterrupt:
        return


def _wait_for_url(child: Child) -> str:
    deadline = time.monotonic() + START_TIMEOUT
    while (found := ADDRESS.search(child.output())) is None:
        child.check()
        if time.monotonic() > deadline:
            raise RunFailed(f"the dashboard did not start within {START_TIMEOUT} s")
        time.sleep(LOOK_INTERVAL)
    return found[1]
