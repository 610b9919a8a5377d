"""The duty that fires cron entries when their time has come."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg

from pgqpy import calls
from pgqpy.errors import InvalidArgument, PgqError
from pgqpy.schedule import schedule
from pgqpy.ticker.maintenance import GONE, sqlstate
from pgqpy.ticker.tick import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from uuid import UUID

    from pgqpy import Client
    from pgqpy.records import CronEntry

CRON_PERIOD = 1.0  # seconds: an event is late by so much at most
POLL_PERIOD = (
    10.0  # seconds until a new entry is noticed: reading them all costs more than knowing when
)
GRACE = timedelta(minutes=10)  # a restart or a takeover is no missed time for an entry with 'skip'
MOST = 1000  # missed times of an entry that are made up for


@dataclass(slots=True)
class Fired:
    """The result of one poll of the cron entries."""

    events: list[tuple[CronEntry, datetime]] = field(default_factory=list)
    failures: list[tuple[CronEntry, Exception, int]] = field(default_factory=list)


class Cron:
    """Plans and fires the cron entries of a database.

    The state is only about when to poll again: what is due, and fired, the server knows.
    """

    def __init__(self) -> None:
        self._poll_at = 0.0  # monotonic seconds
        self._failing = Backoff()
        # By name and version: to find that no day fits a schedule takes a quarter of a second.
        self._unreadable: dict[tuple[str, UUID], InvalidArgument] = {}

    def fire(self, client: Client, *, stopping: Callable[[], bool] = lambda: False) -> Fired:
        """Fire the entries that are due, each time in a transaction of its own.

        An entry that fails stops no other; those of its queue wait a little, as they would fail
        too. A lost connection is raised.
        """
        done = Fired()
        now = time.monotonic()
        if now < self._poll_at:
            return done
        wait = POLL_PERIOD
        for entry in client.get_cron_info():
            if stopping():
                break
            if entry.paused_since is not None:
                continue
            if entry.next_due is not None and entry.next_due > entry.read_at:
                wait = min(wait, (entry.next_due - entry.read_at).total_seconds())
                continue
            if error := self._unreadable.get((entry.name, entry.version)):
                done.failures.append((entry, error, 1))
                continue
            wait = 0.0
            if not self._failing.pausing(entry.queue, now):
                self._try(client, entry, done, stopping)
        self._poll_at = now + wait
        return done

    def _try(
        self, client: Client, entry: CronEntry, done: Fired, stopping: Callable[[], bool]
    ) -> None:
        """Fire one entry; record an error."""
        try:
            for event in fired(client, entry):
                done.events.append((entry, event))
                if stopping():
                    break
        except InvalidArgument as exc:
            self._unreadable[entry.name, entry.version] = exc
            done.failures.append((entry, exc, 1))
        except (psycopg.Error, PgqError) as exc:
            if client.connection.closed:
                raise
            if sqlstate(exc) not in GONE:
                times = self._failing.failed(entry.queue, time.monotonic())
                done.failures.append((entry, exc, times))
        else:
            self._failing.succeeded(entry.queue)


def fired(client: Client, entry: CronEntry) -> Iterator[datetime]:
    """Plan or fire an entry, and yield the times of its events.

    It ends early where another daemon was faster. Raises InvalidArgument if the schedule or the
    time zone cannot be read.
    """
    for due, event, following in steps(entry):
        if (
            client.call(calls.cron.fire_cron(entry.name, entry.version, due, event, following))
            is None
        ):
            return
        if event is not None:
            yield event


def steps(entry: CronEntry) -> Iterator[tuple[datetime | None, datetime | None, datetime]]:
    """Yield what to call fire_cron with, in order: the planned time, the event's, the next one."""
    due, now = entry.next_due, entry.read_at
    times = schedule(entry.schedule, entry.timezone)
    if due is None:
        yield None, None, times.next_after(entry.planned_at)
        return
    most = MOST if entry.missed == "all" else 1
    events = [due, *times.newest(due, now, most)][-most:]
    if entry.missed == "skip" and now - events[0] > GRACE:
        yield due, None, times.next_after(now)
        return
    for event, following in zip(events, [*events[1:], times.next_after(now)], strict=True):
        yield due, event, following
        due = following
