"""[Generated from _async/history.py by tools/unasync.py: edit that file, not this one.] The part of the client for what happened: the history of a queue, and who changed what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy import calls
from pgqpy.client._sync.base import Base

if TYPE_CHECKING:
    from collections import abc
    from datetime import datetime

    from pgqpy.records import Change, HistoryPoint


class History(Base):
    """Reads the history; notes changes, and lists them. Needs the role pgq_dashboard.

    The role pgq_reader may read the history too, pgq_admin everything here.
    """

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

    def begin_change(
        self,
        action: str,
        queue: str | None = None,
        consumer: str | None = None,
        arguments: abc.Mapping[str, object] | None = None,
        *,
        user: str | None = None,
    ) -> int:
        """Note a change that a user is about to make; return the id for `end_change`.

        Args:
            action: what is done, such as "drop queue".
            queue: of which queue.
            consumer: of which consumer.
            arguments: the rest, at most 10,000 characters of JSON. Leave payloads out.
            user: the user, as your program knows him. The login is noted anyway.

        Call it outside a transaction, so that it stays if the change fails:

            change = client.begin_change("drop queue", "orders", user="ann")
            client.drop_queue("orders")
            client.end_change(change, "done")

        Raises InvalidArgument.
        """
        call = calls.history.begin_change(action, queue, consumer, arguments, user)
        return self.runner.run(call)

    def end_change(self, change: int, outcome: str) -> int:
        """Note how a change ended: 1; 0: this login began no such change, or it ended before.

        1,000 characters of `outcome` are kept.
        """
        return self.runner.run(calls.history.end_change(change, outcome))

    def get_changes(self, limit: int = 100, before: int | None = None) -> list[Change]:
        """List the changes of the last 90 days, the newest first; `before`: with lower ids.

        Raises InvalidArgument if `limit` is not between 1 and 10,000.
        """
        return self.runner.run(calls.history.get_changes(limit, before))
