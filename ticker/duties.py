"""The duties beside ticking: rotation and other maintenance, retries, cron entries."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import psycopg
from psycopg import sql

from pgqpy import calls
from pgqpy.errors import InvalidArgument, PgqError
from pgqpy.schedule import schedule
from pgqpy.ticker.tick import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from uuid import UUID

    from psycopg.errors import Diagnostic

    from pgqpy import Client
    from pgqpy.records import CronEntry, MaintOperation


FULL = 10_000  # retried events: what a call moves at least, if so many are due
AGAIN = 1  # the result of an operation that is to be called again at once
# queue not found, or renamed; its table was dropped during the call
QUEUE_GONE = ("PQ001", "PQ026", "42P01")
ROTATE = "pgq.maint_rotate_tables_step1"


class Moved(NamedTuple):
    """The result of a call that moves retried or delayed events into their queues."""

    moved: int  # events
    failures: tuple[tuple[str, psycopg.Error], ...]  # by queue, whose due events stay


def retry(client: Client) -> Moved:
    """Move due events from the retry queue back into their queues, by one call.

    If it moves fewer than `FULL`, no event is left that was due when it began.
    """
    with warnings_by_queue(client) as failures:
        moved = client.call(calls.maintain.maint_retry_events())
    return Moved(moved, tuple(failures.items()))


@contextmanager
def warnings_by_queue(client: Client) -> Iterator[dict[str, psycopg.Error]]:
    """Collect the errors of queues: the server reports each queue that fails in a WARNING."""
    failures: dict[str, psycopg.Error] = {}

    def note(warning: Diagnostic) -> None:
        error = psycopg.Error(warning.message_primary or "")
        error.sqlstate = warning.sqlstate
        failures[(warning.message_detail or "").removeprefix("queue ")] = error

    client.connection.add_notice_handler(note)
    try:
        yield failures
    finally:
        client.connection.remove_notice_handler(note)


class VacuumWarning(PgqError):
    """The server warned during a VACUUM, such as of a table that this role may not vacuum."""

    what_to_do = "if it stays so, set autovacuum = on, or vacuum as the owner of the schema pgq"


@dataclass(slots=True)
class Maintained:
    """The result of one round of maintenance."""

    rotated: list[str] = field(default_factory=list)  # queues that switched to their next table
    failures: list[tuple[MaintOperation, Exception]] = field(default_factory=list)


def maint(client: Client, *, stopping: Callable[[], bool] = lambda: False) -> Maintained:
    """Run all due maintenance operations, each in its own transaction.

    An operation that fails is returned among the failures, unless its queue was dropped or
    renamed meanwhile, and does not stop the others. A lost connection is raised. The connection
    must be in autocommit mode, as VACUUM requires.
    """
    done = Maintained()
    last: Exception | None = None  # failure
    for operation in client.call(calls.maintain.maint_operations()):
        if stopping():
            break
        try:
            if _run(client, operation, stopping):
                done.rotated.append(str(operation.func_arg))
        except (psycopg.Error, PgqError) as exc:
            if client.connection.closed:
                raise
            if isinstance(exc, VacuumWarning) and isinstance(last, VacuumWarning):
                continue  # all tables have one owner: a report of the first is enough
            if not _is_of_dropped_queue(client, operation, exc):
                done.failures.append((operation, exc))
                last = exc
    return done


def _is_of_dropped_queue(client: Client, operation: MaintOperation, exc: Exception) -> bool:
    queue = operation.func_arg
    return sqlstate(exc) in QUEUE_GONE and queue is not None and not client.get_queue_info(queue)


def _run(client: Client, operation: MaintOperation, stopping: Callable[[], bool]) -> bool:
    """Run one operation until it is complete; say whether the queue switched tables."""
    name, argument = operation
    run = client.connection.execute
    if name == "vacuum":
        _vacuum(client, str(argument))
        return False
    before = _current_table(client, operation)
    arguments = sql.SQL("" if argument is None else "{}::text").format(argument)
    call = sql.SQL("select {}({})").format(_identifier(name), arguments)
    while run(call, prepare=False).fetchone() == (AGAIN,) and not stopping():
        pass
    return _current_table(client, operation) != before


def _vacuum(client: Client, table: str) -> None:
    """Raise VacuumWarning if the server skips the table: that is no error to it."""
    with warnings_by_queue(client) as warnings:
        client.connection.execute(sql.SQL("vacuum {}").format(_identifier(table)))
    for warning in warnings.values():
        raise VacuumWarning(f"{warning}: {VacuumWarning.what_to_do}", sqlstate=warning.sqlstate)


def _current_table(client: Client, operation: MaintOperation) -> int | None:
    if operation.func_name != ROTATE:
        return None
    queues = client.get_queue_info(operation.func_arg)
    return queues[0].queue_cur_table if queues else None


def _identifier(name: str) -> sql.Identifier:
    """Quote a name as quote_fqname does: at its first dot; without a dot the schema is public."""
    return sql.Identifier(*(name if "." in name else f"public.{name}").split(".", 1))


def sqlstate(exc: BaseException) -> str | None:
    """Return the SQLSTATE of an error, or of the error of psycopg that caused it."""
    code = getattr(exc, "sqlstate", None)
    return code if isinstance(code, str) else getattr(exc.__cause__, "sqlstate", None)


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
            if sqlstate(exc) not in QUEUE_GONE:
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
