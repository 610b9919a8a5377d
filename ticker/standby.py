"""The wait for the ticker's lock, while another daemon or another session holds it.

Advisory locks can be taken by every login of the database, so the daemon names the holder.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pgqpy import locks
from pgqpy.ticker.last_ticks import LastTicks
from pgqpy.ticker.statements import QUEUES

if TYPE_CHECKING:
    from pgqpy import Client
    from pgqpy.ticker.session import Database

STANDBY_POLL = 0.25  # seconds between attempts to become the active daemon
STANDBY_CHECK = 2.0  # seconds between checks that another ticker works
MAX_NAMES = 3  # in a sentence

LOCK_AS_TICKER = "select pg_try_advisory_lock(7366513, 0)"
DUE = "select pgq.ticker_due(%s, %s)"
# Every tick is written to this table first.
LAST_TICK = "select max(tick_time)::text from pgq.tick_recent"


class Standby:
    """A daemon without the ticker's lock: it waits, and checks that another ticker works."""

    def __init__(self, client: Client, database: Database) -> None:
        self._client = client
        self._connection = client.connection
        self._health = database.health
        self._health_limit = database.settings.health_limit
        self._report = database.report
        self._stopping = database.stopping
        self._overdue: set[tuple[str, str | None]] = set()

    def wait(self) -> None:
        """Return when this session holds the ticker's lock, or when the daemon stops.

        It tries again and again instead of waiting in the server: a statement that waits holds a
        snapshot, which keeps vacuum from removing rows in the whole database.
        """
        next_check, problem = 0.0, None
        while self._connection.execute(LOCK_AS_TICKER).fetchone() != (True,):
            now = self._health.alive_at = time.monotonic()
            if now >= next_check:
                next_check = now + STANDBY_CHECK
                # Fails without the rights of a ticker: before the role is announced.
                problem = self._problem()
                self._announce()
            self._note(problem, now)
            if self._stopping.wait(STANDBY_POLL):
                return

    def _announce(self) -> None:
        if self._health.role == "standby":
            return
        holder = self._holder()
        self._health.change("standby")
        self._report.forget("connection")
        self._report.log.info("standby", reason=describe(holder) if holder else None)

    def _note(self, problem: str | None, now: float) -> None:
        """Record whether another ticker works; a lasting problem makes the database unhealthy."""
        self._health.reason = problem
        lasting = self._health.poll_age(now) > self._health_limit
        if problem is None:
            self._health.polled(now)
            if self._report.forget("standby"):
                self._report.log.info("another ticker works again")
        elif lasting and self._report.is_news("standby", ""):
            self._report.metrics.errors.labels(self._report.database, "standby").inc()
            self._report.log.error("nobody ticks", error=problem)

    def _problem(self) -> str | None:
        """Return why no other ticker seems to work, None if one does.

        The lock alone is no proof. A ticker does not work if a queue was due at the last check and
        still is, and no queue of the database got a tick in between.
        """
        holder = self._holder()
        if holder is not None and not holder.may_be_ticker:
            return f"{describe(holder)}, which may not tick: {holder.how_to_end}"
        due = self._due()
        still = self._overdue & due
        self._overdue = still or due
        if not still:
            return None
        names = sorted(name for name, _ in still)
        more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        by = f"; {describe(holder)}: if it does not tick, {holder.how_to_end}" if holder else ""
        return f"nobody ticks {', '.join(names[:MAX_NAMES])}{more}, due for a while{by}"

    def _due(self) -> set[tuple[str, str | None]]:
        """Return the queues that are due, each with the time of the database's last tick."""
        run = self._connection.execute
        ids = [row[0] for row in run(QUEUES).fetchall()]
        # In ranges, as the active daemon does: the server's lock table is finite.
        ranges = [(int(first), int(last)) for first, last in LastTicks(ids).bounds()]
        found = [row[0] for each in ranges for row in run(DUE, each).fetchall()]
        row = run(LAST_TICK).fetchone() if found else None
        return {(name, row[0] if row else None) for name in found}

    def _holder(self) -> locks.Holder | None:
        cursor = self._connection.cursor()
        row = cursor.execute(locks.HOLDER, (locks.ENGINE, locks.TICKING)).fetchone()
        return None if row is None else locks.Holder(*row)


def describe(holder: locks.Holder) -> str:
    """Return a clause that names the holder of the ticker's lock."""
    return f"the ticker's lock ({locks.ENGINE}, {locks.TICKING}) is held by {holder}"
