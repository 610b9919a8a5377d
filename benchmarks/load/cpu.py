"""The CPU time that processes take, in percent of a core."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psutil
import psycopg

if TYPE_CHECKING:
    from collections.abc import Callable

POSTMASTER = "select split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::int"


class Cpu:
    """What is spent between the making of this object and `percent()`."""

    def __init__(self, spent: Callable[[], float]) -> None:
        """Take a function that returns CPU seconds so far."""
        self._spent = spent
        self._before, self._start = spent(), time.monotonic()

    def percent(self) -> float:
        """Return the share of a core that was taken since this object was made."""
        took = time.monotonic() - self._start
        return 100 * (self._spent() - self._before) / took


def process_cpu(process: psutil.Process) -> Cpu:
    """Measure one process."""

    def spent() -> float:
        times = process.cpu_times()
        return float(times.user + times.system)

    return Cpu(spent)


def server_cpu(dsn: str) -> Cpu:
    """Measure the whole server, sessions included that begin and end meanwhile."""
    with psycopg.connect(dsn) as connection:
        (pid,) = connection.execute(POSTMASTER).fetchone() or (0,)
    postmaster = psutil.Process(pid)
    return Cpu(lambda: _family(postmaster))


def _family(postmaster: psutil.Process) -> float:
    # What a process has spent that ended and was waited for is in its parent's children_…
    times = postmaster.cpu_times()
    spent = times.user + times.system + times.children_user + times.children_system
    for child in postmaster.children():
        try:
            mine = child.cpu_times()
        except psutil.NoSuchProcess:  # it ended between the two calls: a few milliseconds at most
            continue
        spent += mine.user + mine.system
    return float(spent)
