"""Queues that every look leaves out, because another session holds their lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgqpy import locks
from pgqpy.errors import PgqError

if TYPE_CHECKING:
    from psycopg import Connection
    from typing_extensions import LiteralString

# See pgq.may_look_at: drop_queue takes the lock, and any other session can.
SKIPPED: LiteralString = f"""
    select q.queue_name, q.queue_id, h.pid, h.role, h.application, h.address, h.start, h.prepared
    from ({locks.HOLDERS}) h join pgq.queue q on q.queue_id = h.object
    where h.class = 7366515 and h.exclusive
        and not q.queue_external_ticker and not q.queue_ticker_paused
"""  # noqa: S608  # our own query within our own


class QueueSkipped(PgqError):
    """The queue is left out of ticks."""


class Skipped:
    """Looks for queues that are left out for longer than a drop takes."""

    def __init__(self, period: float) -> None:
        """Look every `period` seconds."""
        self._period = period
        self._next = 0.0  # monotonic seconds
        self._seen: set[str] = set()
        self.names: set[str] = set()  # left out at two looks in a row

    def look(self, connection: Connection[Any], now: float) -> dict[str, QueueSkipped] | None:
        """Return the queues that are left out and why; None if it is not time to look."""
        if now < self._next:
            return None
        self._next = now + self._period
        found = {
            name: skipped(queue_id, locks.Holder(*holder))
            for name, queue_id, *holder in connection.execute(SKIPPED).fetchall()
        }
        self.names = self._seen & found.keys()
        self._seen = set(found)
        return {name: found[name] for name in self.names}


def skipped(queue_id: int, holder: locks.Holder) -> QueueSkipped:
    """Name the holder of a queue's lock, and what to do."""
    return QueueSkipped(
        f"not ticked: its lock ({locks.QUEUE}, {queue_id}) is held by {holder}: "
        f"if it is not dropping the queue, {holder.how_to_end}"
    )
