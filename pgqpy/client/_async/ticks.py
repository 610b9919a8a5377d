"""The part of the client for reading tick ranges without a batch."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from pgqpy import calls
from pgqpy.client._async.base import AsyncBase

if TYPE_CHECKING:
    from collections import abc
    from datetime import datetime

    from pgqpy.records import Event, TickInfo, TickMark, TickStage


class AsyncTickReading(AsyncBase):
    """Reads ranges of ticks, and keeps a subscription behind them. Needs the role pgq_reader.

    Two ticks name the same events whenever they are read. A reader that stores tick ids itself, as
    a stream's checkpoint does, needs no batches: only a subscription that keeps the events.

        await client.pin_range("orders", "lake", at, to)  # before `to` is written down
        async for event in client.get_tick_events("orders", at, to):
            print(event.data)
        await client.advance_subscription("orders", "lake", at, to)
    """

    async def get_tick_info(
        self, queue: str, from_tick: int | None = None, to_tick: int | None = None
    ) -> list[TickInfo]:
        """List the ticks, from one to another, whose later events are all still stored.

        Everybody may call it. Raises QueueNotFound.
        """
        return await self.runner.run(calls.ticks.get_tick_info(queue, from_tick, to_tick))

    async def get_tick_marks(self, queue: str, marks: int = 200) -> list[TickMark]:
        """Return at most so many of the ticks that `get_tick_info` lists, about even in time.

        The first and the last are among them. It costs milliseconds, however many ticks are kept.
        Everybody may call it. Raises QueueNotFound, InvalidArgument.
        """
        return await self.runner.run(calls.ticks.get_tick_marks(queue, marks))

    async def get_tick_at(self, queue: str, time: datetime) -> int | None:
        """Return the tick after which all events come that were committed at a time or later.

        That is the last tick before the first later one; None if all ticks that can still be read
        from are later. Everybody may call it. Raises QueueNotFound.
        """
        return await self.runner.run(calls.ticks.get_tick_at(queue, time))

    async def get_tick_stages(self, queue: str, from_tick: int, to_tick: int) -> list[TickStage]:
        """List the stages released after one tick, up to another: see commit_stage.

        Raises QueueNotFound, NotFound, and RangeExpired if rotation removed some of its events.
        """
        return await self.runner.run(calls.ticks.get_tick_stages(queue, from_tick, to_tick))

    async def tick_event_sql(
        self,
        queue: str,
        from_tick: int,
        to_tick: int,
        stages: abc.Iterable[int] | None = None,
        *,
        types: calls.filters.Types | None = None,
        extras: calls.filters.Extras | None = None,
    ) -> str:
        """Return the SELECT that reads the events after one tick, up to another, in no order.

        Run it in the same transaction: rotation waits only for that. `stages`, from those that
        get_tick_stages lists, selects only their events; an empty list selects the events outside
        of stages, None all events. `types` and `extras`, as in set_consumer_filter, select only
        events of these types, with these values.

        Raises QueueNotFound, NotFound, RangeExpired if rotation removed some of its events, and
        InvalidArgument if a stage is not in the range.
        """
        return await self.runner.run(
            calls.ticks.tick_event_sql(queue, from_tick, to_tick, stages, types, extras)
        )

    async def get_tick_events(
        self, queue: str, from_tick: int, to_tick: int, *, fetch_size: int = calls.read.FETCH_SIZE
    ) -> abc.AsyncIterator[Event]:
        """Iterate over the events after one tick, up to another, by id; memory holds `fetch_size`.

        They are the events of the batches in between. Retried events, which belong to one consumer,
        are left out. Inside a transaction, read to the end before it ends.

        Raises QueueNotFound, NotFound, and RangeExpired if rotation removed some of its events.
        """
        size = calls.read.checked_fetch_size(fetch_size)
        wanted = calls.ticks.events(queue, from_tick, to_tick)
        name = calls.read.cursor_name(to_tick)
        async with self.runner.locked(), self.runner.settled():
            held = await self.runner.is_alone()
            declare = calls.ticks.declare_events(name, wanted, held=held)
            await self.runner.close_left_open()
            await self.runner.require_pgqpy("get_tick_events")
            await self.runner.read(wanted, declare, prepare=False)
        async with aclosing(self.runner.fetch(wanted, name, size, None, held=held)) as lists:
            async for events in lists:
                for event in events:
                    yield event

    async def pin_range(self, queue: str, consumer: str, from_tick: int, to_tick: int) -> int:
        """Keep the ticks of a range that a subscription will read; release the range before.

        Rotation removes no event after the subscription's position. But ticks that no consumer
        refers to are thinned out: pin a range before you store its ticks anywhere. Returns 1 if
        they are kept from now on, 0 if they were kept already.

        Raises ConsumerNotFound, NotFound, InvalidArgument if the range is empty or runs
        backwards, ConsumerRunning if it is beyond `from_tick` or somebody opened a batch.
        """
        return await self.runner.run(calls.ticks.pin_range(queue, consumer, from_tick, to_tick))

    async def advance_subscription(
        self, queue: str, consumer: str, from_tick: int, to_tick: int
    ) -> int:
        """Move a subscription from one tick to a later one, if it is at the first.

        Call it when you will not read the range again: rotation may remove it then. Returns 1 if it
        moved, 0 if it is at `to_tick` already.

        Raises ConsumerNotFound, NotFound, InvalidArgument if it would move backwards,
        ConsumerRunning if it is elsewhere or somebody opened a batch.
        """
        call = calls.ticks.advance_subscription(queue, consumer, from_tick, to_tick)
        return await self.runner.run(call)
