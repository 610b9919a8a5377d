"""The watcher of one database: a connection of its own, the polls over it, rates and pauses."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import psycopg

from pgqpy import calls
from pgqpy.client import connect_as_tool
from pgqpy.client.opening import PINNED, connect_parameters
from pgqpy.doctor import Finding, examine
from pgqpy.errors import ConnectionFailed, PgqError
from pgqpy.texts import error_text
from pgqpy.watch.snapshot import (
    Names,
    NoAnswer,
    Snapshot,
    consumer_states,
    event_seqs,
    if_seen,
    queue_states,
    read,
    ticker_daemons,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from typing_extensions import Self

    from pgqpy import Client

LEAST_PAUSE = 1.0  # seconds
LOST_PAUSE = 2.0  # seconds, while the database does not answer
# A pause lasts so many times what it follows. A poll and two slow parts: 1/75 + 2/300 = 2 % of a
# core at most.
PAUSE = 75
SLOW_PAUSE = 300


class Reached(NamedTuple):
    """Event ids at one time: the last of each queue, and the position of each consumer."""

    at: float  # by time.monotonic()
    seqs: Mapping[Names, int]


def rates(before: Reached | None, now: Reached) -> dict[Names, float]:
    """Return ids a second, for names that both polls have and whose ids did not fall."""
    if before is None or now.at <= before.at:
        return {}
    return {
        names: (seq - before.seqs[names]) / (now.at - before.at)
        for names, seq in now.seqs.items()
        if names in before.seqs and seq >= before.seqs[names]
    }


def pause_after(took: float) -> float:
    """Return the seconds to wait after a poll that took `took` seconds."""
    return max(LEAST_PAUSE, PAUSE * took)


class SlowClock:
    """Says when an expensive part is due: `least` seconds after its end, or 300 times its time."""

    def __init__(self, least: float) -> None:
        """Be due at once."""
        self._least = least
        self._next = float("-inf")  # by time.monotonic()

    def is_due(self, now: float) -> bool:
        """Say whether it is due."""
        return now >= self._next

    def done(self, began: float, ended: float) -> None:
        """Note when it began and ended."""
        self._next = ended + max(self._least, SLOW_PAUSE * (ended - began))


SESSION = {
    **PINNED,
    "default_transaction_read_only": "on",
    "statement_timeout": "10s",
    "lock_timeout": "1s",
    "jit": "off",  # it would compile a query for longer than the query takes
}
SIZES_EVERY = 60.0  # seconds
FINDINGS_EVERY = 10.0  # seconds
LEVELS = ("fail", "warn", "skipped", "ok")  # the worst first


class Watcher:
    """Polls a database again and again, over one connection, in read-only transactions.

    The server and this process together spend at most 2 % of a core, if the caller pauses between
    two polls as `pause` says. Several threads may share a watcher.

        with Watcher("postgresql://localhost/shop") as watcher:
            while True:
                show(watcher.poll())
                time.sleep(watcher.pause)
    """

    def __init__(self, dsn: str = "") -> None:
        """Take the DSN; the first poll connects. Raises ConnectionFailed if it is not valid."""
        connect_parameters(dsn, {})
        self._dsn = dsn
        self._lock = Lock()
        self._client: Client | None = None
        self._last = Snapshot()
        self._before: Reached | None = None
        self._sizes: dict[str, int | None] = {}
        self._sizes_clock = SlowClock(SIZES_EVERY)
        self._findings_clock = SlowClock(FINDINGS_EVERY)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def last(self) -> Snapshot:
        """What the last poll found."""
        return self._last

    @property
    def pause(self) -> float:
        """How many seconds to wait until the next poll."""
        return LOST_PAUSE if self._last.no_answer else pause_after(self._last.took)

    def close(self) -> None:
        """Close the connection; a later poll opens a new one."""
        with self._lock:
            self._disconnect()

    def poll(self, *, fully: bool = False) -> Snapshot:
        """Poll the database; if it does not answer, say so in a snapshot with the last data.

        With `fully`, sizes are read and the checks of doctor are made, whatever their clocks say.
        """
        for _snapshot in self.polls(fully=fully):
            pass
        return self._last

    def polls(self, *, fully: bool = False) -> Iterator[Snapshot]:
        """Do the same as `poll`, and yield a snapshot after each part of it.

        The data come first, in a tenth of a second. The checks and the sizes, which take a second
        with 1,000 queues, follow if they are due.
        """
        for part in (
            partial(self._poll, fully=fully),
            partial(self._examine, fully=fully),
            partial(self._read_sizes, fully=fully),
        ):
            with self._lock:
                found = self._run(part)
            if found is not None:
                yield found
            if self._last.no_answer:
                return

    def _run(self, part: Callable[[Client], Snapshot | None]) -> Snapshot | None:
        """Run a part of a poll. None: it was not due."""
        try:
            found = part(self._connected())
        except (psycopg.Error, PgqError) as exc:
            found = replace(self._last, no_answer=self._failure(exc))
            self._findings_clock = SlowClock(FINDINGS_EVERY)  # due as soon as it answers again
            self._disconnect()
        self._last = found or self._last
        return found

    def _connected(self) -> Client:
        if self._client is None:
            name = "pgqpy watch"
            self._client = connect_as_tool(self._dsn, SESSION, fallback_application_name=name)
        return self._client

    def _disconnect(self) -> None:
        if self._client is not None:
            self._client.connection.close()
        self._client = None

    def _poll(self, client: Client, *, fully: bool) -> Snapshot:
        began = time.monotonic()
        found = read(client)
        ended = time.monotonic()
        now = Reached(ended, event_seqs(found))
        speeds = rates(self._before, now)
        self._before = now
        tickers = ticker_daemons(found)
        consumers = consumer_states(found, speeds)
        return Snapshot(
            database=client.connection.info.dbname,
            taken=_now(),
            took=ended - began,
            queues=queue_states(found, speeds, consumers, tickers, self._sizes),
            consumers=consumers,
            holders=tuple(found.holders or ()),
            stalled=tuple(found.stalled or ()),
            tickers=tickers,
            findings=self._last.findings,
            examined=self._last.examined,
            checking=fully or self._findings_clock.is_due(ended),
        )

    def _read_sizes(self, client: Client, *, fully: bool) -> Snapshot | None:
        began = time.monotonic()
        if not (fully or self._sizes_clock.is_due(began)):
            return None
        metrics = if_seen(lambda: client.call(calls.admin.get_queue_metrics())) or []
        self._sizes = {each.queue_name: each.total_bytes for each in metrics}
        self._sizes_clock.done(began, time.monotonic())
        queues = (
            replace(each, total_bytes=self._sizes.get(each.name)) for each in self._last.queues
        )
        return replace(self._last, queues=tuple(queues))

    def _examine(self, client: Client, *, fully: bool) -> Snapshot | None:
        began, connection = time.monotonic(), client.connection
        if not (fully or self._findings_clock.is_due(began)):
            return None
        findings: list[Finding] = []
        try:
            findings.extend(examine(connection))
        except psycopg.Error as exc:
            if connection.closed:
                raise
            what = f"not every check could run: {error_text(exc)}"
            findings.append(Finding("fail", "doctor", what, "run pgqpy doctor"))
        self._findings_clock.done(began, time.monotonic())
        findings.sort(key=lambda each: LEVELS.index(each.level))
        return replace(self._last, findings=tuple(findings), examined=_now(), checking=False)

    def _failure(self, exc: Exception) -> NoAnswer:
        last = self._last.no_answer
        is_open = self._client is not None and not self._client.connection.closed
        refused = isinstance(exc, PgqError) and not isinstance(exc, ConnectionFailed)
        return NoAnswer(last.since if last else _now(), error_text(exc), is_open or refused)


def _now() -> datetime:
    return datetime.now(timezone.utc)
