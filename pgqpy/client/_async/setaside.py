"""The client's retries of many events, and its dead events."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from pgqpy import calls
from pgqpy.client._async.base import AsyncBase

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from pgqpy.calls import After, Payload
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

    async def event_retry_raw(
        self,
        queue: str,
        consumer: str,
        after: datetime,
        id: int | None,
        time: datetime | None,
        retry: int | None,
        type: str | None,
        data: Payload,
        extra1: Payload = None,
        extra2: Payload = None,
        extra3: Payload = None,
        extra4: Payload = None,
    ) -> int:
        """Put an event of any content into one consumer's retry queue, for it alone, for later.

        Args:
            queue: the queue's name.
            consumer: the only one that will see it.
            after: the moment (aware datetime) from which it is delivered.
            id: None takes the next of the queue's sequence.
            time: the event's time; None is now.
            retry: how often it was retried already.
            type: as in insert_event.
            data: as in insert_event.
            extra1: as in insert_event.
            extra2: as in insert_event.
            extra3: as in insert_event.
            extra4: as in insert_event.

        Returns:
            The event's id.

        Raises:
            ConsumerNotFound; InvalidEvent: a field cannot be stored.

        PGQ event_retry_raw, pgq-contract 1.4. Needs the role pgq_admin.
        """
        columns = (id, time, retry, type, data, extra1, extra2, extra3, extra4)
        limit, default = self._payload_limit, self._json_default
        call = calls.setaside.event_retry_raw(
            queue, consumer, after, *columns, limit=limit, default=default
        )
        return await self.runner.run(call)
