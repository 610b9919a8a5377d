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
        """Give up events of an open batch: they are kept, but not delivered again.

        `dead` are pairs of an event and the reason. Returns the number of new dead events.

        Raises:
            BatchNotFound, EventNotFound; NotSupported: on the real extension.
        """
        return self.runner.run(calls.dead_events.event_dead(batch, dead))

    def get_dead_events(self, queue: str, consumer: str) -> list[DeadEvent]:
        """List the dead events of a consumer, by id.

        Raises:
            ConsumerNotFound; NotSupported: on the real extension.
        """
        return self.runner.run(calls.dead_events.get_dead_events(queue, consumer))

    def revive_dead_events(
        self, queue: str, consumer: str, event_ids: Iterable[int] | None = None
    ) -> int:
        """Put dead events (None: all) into the retry queue, for their consumer; return how many.

        Raises:
            ConsumerNotFound; NotSupported: on the real extension.
        """
        call = calls.dead_events.revive_dead_events(queue, consumer, event_ids)
        return self.runner.run(call)

    def delete_dead_events(
        self, queue: str, consumer: str, event_ids: Iterable[int] | None = None
    ) -> int:
        """Delete dead events (None: all) for good; return how many.

        Raises:
            ConsumerNotFound; NotSupported: on the real extension.
        """
        call = calls.dead_events.delete_dead_events(queue, consumer, event_ids)
        return self.runner.run(call)
