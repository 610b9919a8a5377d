"""The check, by a daemon that stands by, that another ticker serves the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgqpy import locks
from pgqpy.ticker.statements import QUEUES
from pgqpy.ticker.watch import Watch

if TYPE_CHECKING:
    from psycopg import Connection

DUE = "select pgq.ticker_due(%s, %s)"
# A tick is written here, wherever it is kept later.
LAST_TICK = "select max(tick_time)::text from pgq.tick_recent"
ENOUGH = 3  # names in a sentence


class Standby:
    """Looks whether queues that are due get their ticks: the lock alone proves no ticker."""

    def __init__(self, connection: Connection[Any]) -> None:
        """Ride on the session that waits for the ticker's lock."""
        self._connection = connection
        self._overdue: set[tuple[str, str | None]] = set()

    def problem(self) -> str | None:
        """Return why nobody seems to tick, None if somebody does.

        A queue that was due at the look before, and still is, while no queue of the database got
        a tick in between.
        """
        holder = holder_of(self._connection, locks.ENGINE, locks.TICKING)
        if holder is not None and not holder.may_be_ticker:
            return f"{describe_holder(holder)}, which may not tick: {holder.how_to_end}"
        due = self._due()
        still = self._overdue & due
        self._overdue = still or due
        if not still:
            return None
        names = sorted(name for name, _ in still)
        more = f" and {len(names) - ENOUGH} more" if len(names) > ENOUGH else ""
        by = ""
        if holder:
            by = f"; {describe_holder(holder)}: if it does not tick, {holder.how_to_end}"
        return f"nobody ticks {', '.join(names[:ENOUGH])}{more}, due for a while{by}"

    def _due(self) -> set[tuple[str, str | None]]:
        """Return the queues that are due, each with the time of the database's last tick."""
        run = self._connection.execute
        ids = [row[0] for row in run(QUEUES).fetchall()]
        # Asked in slices, as the active daemon does: the server's lock table is finite.
        ranges = [(int(first), int(last)) for first, last in Watch(ids).ranges()]
        found = [row[0] for each in ranges for row in run(DUE, each).fetchall()]
        row = run(LAST_TICK).fetchone() if found else None
        return {(name, row[0] if row else None) for name in found}


def holder_of(connection: Connection[Any], *lock: int) -> locks.Holder | None:
    """Return the holder of an advisory lock, None if it is free."""
    row = connection.execute(locks.HOLDER, lock).fetchone()
    return None if row is None else locks.Holder(*row)


def describe_holder(holder: locks.Holder) -> str:
    """Name the holder of the ticker's lock in a sentence."""
    return f"the ticker's lock ({locks.ENGINE}, {locks.TICKING}) is held by {holder}"
