"""The client's retries of many events, and its dead events."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from pgqpy import calls
from pgqpy.client._async.base import AsyncBase

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pgqpy.calls import After
    from pgqpy.records import Batch, DeadEvent, Event


class AsyncSettingAside(AsyncBase):
    """Sets events aside. Needs the role pgq_reader."""

    async def event_retry_many(
        self, batch: Batch | int, retries: Iterable[tuple[Event, After]]
    ) -> int:
        """Give many events of an open batch again, each after its own time. All or none.

        One call, whose cost does not depend on the batch. On the real extension, one `event_retry`
        each.

        Args:
            batch: the batch or its id.
            retries: pairs of an event and when: seconds, a timedelta or an aware datetime.

        Returns:
            How many were newly queued; those in the retry queue already are not counted.

        Raises:
            BatchNotFound, EventNotFound; InvalidArgument: a negative span.
        """
        pairs = list(retries)
        if not await self.runner.is_extension():
            return await self.runner.run(calls.setaside.event_retry_many(batch, pairs))
        queued = 0
        async with self.connection.transaction() if self.runner.alone() else nullcontext():
            for event, after in pairs:
                queued += await self.runner.run(calls.consume.event_retry(batch, event, after))
        return queued

    async def event_dead(self, batch: Batch | int, dead: Iterable[tuple[Event, str | None]]) -> int:
        """Give events of an open batch up: they are kept, with the reason, but not delivered again.

        Args:
            batch: the batch or its id.
            dead: pairs of an event and the reason.

        Returns:
            How many were new.

        Raises:
            BatchNotFound, EventNotFound; NotSupported: on the real extension.
        """
        return await self.runner.run(calls.setaside.event_dead(batch, dead))

    async def get_dead_events(self, queue: str, consumer: str) -> list[DeadEvent]:
        """List the events that a consumer gave up, by id.

        Raises:
            ConsumerNotFound; NotSupported: on the real extension.
        """
        return await self.runner.run(calls.setaside.get_dead_events(queue, consumer))

    async def revive_dead_events(
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
        return await self.runner.run(calls.setaside.revive_dead_events(queue, consumer, event_ids))

    async def delete_dead_events(
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
        return await self.runner.run(calls.setaside.delete_dead_events(queue, consumer, event_ids))
