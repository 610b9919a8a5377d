"""The part of the client for dead events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy import calls
from pgqpy.calls.dead_events import matching
from pgqpy.client import encodings
from pgqpy.client._async.base import AsyncBase

if TYPE_CHECKING:
    from collections import abc

    from typing_extensions import Unpack

    from pgqpy.calls.dead_events import Filters
    from pgqpy.records import Batch, DeadEvent, DeadEventBounds, DeadEventCount, Event, Failure


class AsyncDeadEvents(AsyncBase):
    """Gives events up, and lists, revives and deletes dead events. Needs the role pgq_reader."""

    async def event_dead(
        self,
        batch: Batch | int,
        dead: abc.Iterable[tuple[Event, str | BaseException | Failure | None]],
    ) -> int:
        """Give up events of an open batch: they are kept, but not delivered again.

        `dead` are pairs of an event and the reason: a text, of which 1,000 characters are kept, or
        an exception, whose class, text and traceback are kept. Characters that the database cannot
        hold are escaped. Returns the number of new dead events.

        Raises BatchLost, NotFound.
        """
        ascii_only = not encodings.holds_everything(self.runner.connection)
        call = calls.dead_events.event_dead(batch, dead, ascii_only=ascii_only)
        return await self.runner.run(call)

    async def get_dead_events(
        self,
        queue: str,
        consumer: str,
        event_ids: abc.Iterable[int] | None = None,
        *,
        after: int | None = None,
        before: int | None = None,
        **filters: Unpack[Filters],
    ) -> list[DeadEvent]:
        """List dead events of a consumer, the newest event first.

        Args:
            queue: the queue.
            consumer: its consumer.
            event_ids: only these events.
            after: only events with a higher id: see get_dead_event_bounds.
            before: only events with a lower id.
            **filters: any of
                type: only events of this type; "": those without a type.
                error: only events that died of an exception of this class (`dead_error`); "":
                    those that died without an exception.
                since: only events that died at this time or later.
                until: only events that died before this time.
                limit: at most this many.

        Raises ConsumerNotFound.
        """
        wanted = matching(event_ids, **filters)
        call = calls.dead_events.get_dead_events(queue, consumer, wanted, after, before)
        return await self.runner.run(call)

    async def get_dead_event_bounds(
        self, queue: str, consumer: str, *, before: int | None = None, look: int = 10_000
    ) -> DeadEventBounds:
        """Return the ids of the newest dead events of a consumer, at most `look` of them.

        `before` leaves out the events with this id or a higher one. A million dead events take
        seconds to filter or count. Go through them in steps that take milliseconds instead:

            bounds = await client.get_dead_event_bounds("orders", "billing")
            if bounds.first_id is not None:
                after = bounds.first_id - 1
                counts = await client.get_dead_event_counts("orders", "billing", after=after)
            # of the newest 10,000 if bounds.has_more; the next step: before=bounds.first_id

        Raises ConsumerNotFound, InvalidArgument.
        """
        call = calls.dead_events.get_dead_event_bounds(queue, consumer, before, look)
        return await self.runner.run(call)

    async def get_dead_event_counts(
        self,
        queue: str,
        consumer: str,
        event_ids: abc.Iterable[int] | None = None,
        *,
        after: int | None = None,
        before: int | None = None,
        **filters: Unpack[Filters],
    ) -> list[DeadEventCount]:
        """Count dead events by type and class of exception, the most frequent first.

        The arguments are those of `get_dead_events`; `limit` is for the rows of the result.
        Raises ConsumerNotFound.
        """
        wanted = matching(event_ids, **filters)
        return await self.runner.run(
            calls.dead_events.get_dead_event_counts(queue, consumer, wanted, after, before)
        )

    async def revive_dead_events(
        self,
        queue: str,
        consumer: str,
        event_ids: abc.Iterable[int] | None = None,
        *,
        after: int | None = None,
        **filters: Unpack[Filters],
    ) -> list[int]:
        """Put dead events into the retry queue, for their consumer; return their ids.

        The arguments are those of `get_dead_events`, and `after`: only events with a higher id.
        The oldest events are the first. With `limit` each call is a short transaction: call it
        again, `after` its last id, until it returns fewer. Events that another session is
        reviving or deleting are left out. Raises ConsumerNotFound.
        """
        wanted = matching(event_ids, **filters)
        return await self.runner.run(
            calls.dead_events.revive_dead_events(queue, consumer, wanted, after)
        )

    async def delete_dead_events(
        self,
        queue: str,
        consumer: str,
        event_ids: abc.Iterable[int] | None = None,
        *,
        after: int | None = None,
        **filters: Unpack[Filters],
    ) -> list[int]:
        """Delete dead events for good; return their ids.

        The arguments are those of `revive_dead_events`. Raises ConsumerNotFound.
        """
        wanted = matching(event_ids, **filters)
        return await self.runner.run(
            calls.dead_events.delete_dead_events(queue, consumer, wanted, after)
        )
