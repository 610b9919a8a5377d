"""[Generated from _async/delayed.py by tools/unasync.py: edit that file, not this one.] The part of the client for delayed events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy import calls
from pgqpy.client._sync.base import Base

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pgqpy.records import DelayedCount, DelayedEvent, DelayedMoves


class DelayedEvents(Base):
    """Lists, counts and moves delayed events, which `insert_event` with a delay inserts."""

    def get_delayed_events(
        self, queue: str, *, limit: int | None = None
    ) -> list[DelayedEvent]:
        """List the delayed events of a queue, the one that is due first.

        `limit`: at most this many. Needs the role pgq_reader. Raises QueueNotFound.
        """
        return self.runner.run(calls.delayed.get_delayed_events(queue, limit))

    def get_delayed_counts(self, limit: int | None = 10_000) -> list[DelayedCount]:
        """Count the delayed events of each queue, and say for how long the first one is due.

        Each number is counted up to `limit`, so a million of them cost little; None: all.
        """
        return self.runner.run(calls.delayed.get_delayed_counts(limit))

    def move_delayed_events(self, left_out: Iterable[str] = ()) -> DelayedMoves:
        """Move delayed events that are due into their queues. Repeat until none was moved.

        The ticker daemon calls it. `left_out`: queues to leave alone. Needs the role pgq_ticker.
        Raises WrongTransaction.
        """
        return self.runner.run(calls.delayed.move_delayed_events(left_out))
