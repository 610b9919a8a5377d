"""The CPU time that processes take, in percent of a core."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import psycopg

if TYPE_CHECKING:
    from collections.abc import Callable

POSTMASTER = "select split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::int"


class Cpu:
    """The CPU time between the creation of this object and `percent()`."""

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
    # What a process has spent that ended and was waited for is in its parent's children_…: while
    # nobody ends between the looks at it, every process is counted once.
    before, living = None, 0.0
    while True:
        mine = postmaster.cpu_times()
        ended = mine.children_user + mine.children_system
        if ended == before:
            return float(mine.user + mine.system + ended + living)
        before, living = ended, _living(postmaster)


def _living(postmaster: psutil.Process) -> float:
    spent = 0.0
    for child in postmaster.children():
        with suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            spent += _seconds(child)
    return spent


def _seconds(process: psutil.Process) -> float:
    """Return the CPU seconds that a process of one thread has spent.

    Linux's scheduler knows them exactly. What psutil reads may be counted by the clock's ticks: who
    is woken by a timer, as an idle session is, then takes a whole tick.
    """
    exact = Path(f"/proc/{process.pid}/schedstat")
    if exact.exists():
        return int(exact.read_text().split()[0]) / 1e9
    times = process.cpu_times()
    return float(times.user + times.system)
