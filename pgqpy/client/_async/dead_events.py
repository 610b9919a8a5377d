"""The part of the client for dead events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy import calls
from pgqpy.client._async.base import AsyncBase

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pgqpy.records import Batch, DeadEvent, Event


class AsyncDeadEvents(AsyncBase):
    """Gives events up, and lists, revives and deletes them. Needs the role pgq_reader."""

    async def event_dead(self, batch: Batch | int, dead: Iterable[tuple[Event, str | None]]) -> int:
        """Give up events of an open batch: they are kept, but not delivered again.

        `dead` are pairs of an event and the reason. Returns the number of new dead events.

        Raises:
            BatchNotFound, EventNotFound; NotSupported: on the real extension.
        """
        return await self.runner.run(calls.dead_events.event_dead(batch, dead))

    async def get_dead_events(self, queue: str, consumer: str) -> list[DeadEvent]:
        """List the dead events of a consumer, by id.

        Raises:
            ConsumerNotFound; NotSupported: on the real extension.
        """
        return await self.runner.run(calls.dead_events.get_dead_events(queue, consumer))

    async def revive_dead_events(
        self, queue: str, consumer: str, event_ids: Iterable[int] | None = None
    ) -> int:
        """Put dead events (None: all) into the retry queue, for their consumer; return how many.

        Raises:
            ConsumerNotFound; NotSupported: on the real extension.
        """
        call = calls.dead_events.revive_dead_events(queue, consumer, event_ids)
        return await self.runner.run(call)

    async def delete_dead_events(
        self, queue: str, consumer: str, event_ids: Iterable[int] | None = None
    ) -> int:
        """Delete dead events (None: all) for good; return how many.

        Raises:
            ConsumerNotFound; NotSupported: on the real extension.
        """
        call = calls.dead_events.delete_dead_events(queue, consumer, event_ids)
        return await self.runner.run(call)
