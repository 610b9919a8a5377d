"""The timers of the periodic duties: APScheduler, on threads that do not outlive the daemon."""

from __future__ import annotations

import logging
import sys
import time
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from threading import Thread
from typing import TYPE_CHECKING, Any

from apscheduler.executors.base import BaseExecutor, run_job
from apscheduler.schedulers import SchedulerNotRunningError
from apscheduler.schedulers.background import BackgroundScheduler

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pgqpy.ticker.periodic import Duty

FIRST_RUN = 0.5  # seconds: the loop has become active by then, or the duty waits a period more
CLOCK_LOOK = 10.0  # seconds
CLOCK_STEP = 2.0  # seconds: more than the clock is ever slewed by in between


class Threads(BaseExecutor):  # type: ignore[misc]  # apscheduler ships no types
    """Runs every call of a duty on a daemon thread.

    APScheduler's own pool is joined when the interpreter ends, and so a server that hangs would
    keep the daemon from stopping.
    """

    def __init__(self) -> None:
        """Start no thread yet."""
        super().__init__()
        self._running: set[Thread] = set()

    def _do_submit_job(self, job: Any, run_times: list[datetime]) -> None:
        thread = Thread(target=self._work, args=(job, run_times), name=job.id, daemon=True)
        self._running = {other for other in self._running if other.is_alive()} | {thread}
        thread.start()

    def _work(self, job: Any, run_times: list[datetime]) -> None:
        try:
            events = run_job(job, job._jobstore_alias, run_times, self._logger.name)  # noqa: SLF001  # as its own pools
        except BaseException:  # noqa: BLE001  # as APScheduler's own pools do
            self._run_job_error(job.id, *sys.exc_info()[1:])
        else:
            self._run_job_success(job.id, events)

    def join(self, deadline: float) -> bool:
        """Wait until `deadline` (monotonic) for the running calls; say whether all have ended."""
        for thread in list(self._running):
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._running)


class Scheduler(BackgroundScheduler):  # type: ignore[misc]  # apscheduler ships no types
    """APScheduler, which goes by the wall clock, made to survive that somebody sets it.

    After a step back by an hour every duty would wait for an hour. So the scheduler looks at its
    clock every few seconds, and when that has jumped, everything is due.
    """

    _offset: float | None = None  # seconds from the monotonic clock to the wall clock

    def _process_jobs(self) -> float:
        offset = wall_clock_offset()
        if self._offset is not None and abs(offset - self._offset) > CLOCK_STEP:
            for job in self.get_jobs():
                job.modify(next_run_time=datetime.now(timezone.utc))
        self._offset = offset
        wait: float | None = super()._process_jobs()
        return CLOCK_LOOK if wait is None else min(wait, CLOCK_LOOK)


def wall_clock_offset() -> float:
    """Return the seconds from the monotonic clock to the wall clock."""
    return time.time() - time.monotonic()


class Timers:
    """Calls duties periodically: start, stop, join. Stopping twice or before starting is safe."""

    def __init__(self, duties: Iterable[Duty]) -> None:
        """Take the duties; call none yet."""
        self._threads = Threads()
        # Runs that were missed (a suspended laptop) are made up for by one, never by many, and a
        # run that takes longer than its period delays the next.
        defaults = {"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
        self._scheduler = Scheduler(
            executors={"default": self._threads}, job_defaults=defaults, timezone=timezone.utc
        )
        logging.getLogger("apscheduler").setLevel(logging.ERROR)
        self._duties = list(duties)

    def start(self) -> None:
        """Begin calling the duties."""
        for duty in self._duties:
            first = datetime.now(timezone.utc) + timedelta(seconds=min(FIRST_RUN, duty.period))
            self._scheduler.add_job(duty, "interval", seconds=duty.period, next_run_time=first)
        self._scheduler.start()

    def stop(self) -> None:
        """Call no duty any more; does not wait for one that runs."""
        with suppress(SchedulerNotRunningError):
            self._scheduler.shutdown(wait=False)

    def join(self, deadline: float) -> bool:
        """Wait until `deadline` (monotonic) for running duties; say whether all have ended."""
        return self._threads.join(deadline)
