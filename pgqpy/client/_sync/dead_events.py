"""[Generated from _async/dead_events.py by tools/unasync.py: edit that file, not this one.] The part of the client for dead events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy import calls
from pgqpy.client._sync.base import Base

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pgqpy.records import Batch, DeadEvent, Event


class DeadEvents(Base):
    """Gives events up, and lists, revives and deletes them. Needs the role pgq_reader."""

    def event_dead(self, batch: Batch | int, dead: Iterable[tuple[Event, str | None]]) -> int:
        """Give events of an open batch up: they are kept, with the reason, but not delivered again.

        Args:
            batch: the batch or its id.
            dead: pairs of an event and the reason.

        Returns:
            How many were new.

        Raises:
            BatchNotFound, EventNotFound; NotSupported: on the real extension.
        """
        return self.runner.run(calls.dead_events.event_dead(batch, dead))

    def get_dead_events(self, queue: str, consumer: str) -> list[DeadEvent]:
        """List the events that a consumer gave up, by id.

        Raises:
            ConsumerNotFound; NotSupported: on the real extension.
        """
        return self.runner.run(calls.dead_events.get_dead_events(queue, consumer))

    def revive_dead_events(
        self, queue: str, consumer: str, event_ids: Iterable[int] | None = None
    ) -> int:
        """Give dead events to their consumer again, through the retry queue; return how many.

        Args:
            queue: the queue's name.
            consumer: the consumer's name.
            event_ids: which; None is all.

        Raises:
            ConsumerNotFound; NotSupported: on the real extension.
        """
        call = calls.dead_events.revive_dead_events(queue, consumer, event_ids)
        return self.runner.run(call)

    def delete_dead_events(
        self, queue: str, consumer: str, event_ids: Iterable[int] | None = None
    ) -> int:
        """Delete dead events for good; return how many.

        Args:
            queue: the queue's name.
            consumer: the consumer's name.
            event_ids: which; None is all.

        Raises:
            ConsumerNotFound; NotSupported: on the real extension.
        """
        call = calls.dead_events.delete_dead_events(queue, consumer, event_ids)
        return self.runner.run(call)
