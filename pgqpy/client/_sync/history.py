"""[Generated from _async/history.py by tools/unasync.py: edit that file, not this one.] The part of the client for what happened: the history of a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy import calls
from pgqpy.client._sync.base import Base

if TYPE_CHECKING:
    from datetime import datetime

    from pgqpy.records import HistoryPoint


class History(Base):
    """Reads the history. Needs the role pgq_dashboard or pgq_reader."""

    def get_history(
        self, queue: str, since: datetime | None = None, consumer: str | None = None
    ) -> list[HistoryPoint]:
        """Return how a queue, or one of its consumers, was: a point for each minute, oldest first.

        Args:
            queue: the queue.
            since: from this time on; None: the last 24 hours. Up to 36 hours are there.
            consumer: only this consumer; None: the worst of all, and the sums of the counts.

        The ticker writes the points, so minutes without one are missing. Raises QueueNotFound,
        ConsumerNotFound.
        """
        return self.runner.run(calls.history.get_history(queue, since, consumer))
