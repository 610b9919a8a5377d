"""The part of the client for consumers: registration, batches, retries."""

from __future__ import annotations

from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING

from pgqpy import calls
from pgqpy.client._async.base import AsyncBase
from pgqpy.client._async.transactions import inner_transaction
from pgqpy.errors import BatchLost
from pgqpy.records import Batch

if TYPE_CHECKING:
    from collections import abc

    from pgqpy.calls import After, Interval
    from pgqpy.records import BatchInfo, Event, SeekResult


class AsyncConsuming(AsyncBase):
    """Reads events as a registered consumer. Needs the role pgq_reader."""

    async def register_consumer(self, queue: str, consumer: str) -> int:
        """Register a consumer at the queue's last tick; 1 if it is new, 0 if its position stays.

        It gets every event that this tick did not see: at least all that commit from now on.
        Raises QueueNotFound. PGQ register_consumer.
        """
        return await self.runner.run(calls.consume.register_consumer(queue, consumer))

    async def register_consumer_at(self, queue: str, consumer: str, tick: int | None) -> int:
        """Register a consumer at a tick that the queue still keeps, or move it there.

        Moving drops its open batch, and leaves its retry events. None is the last tick, and moves
        nothing. Returns 1 if it is new, 0 if it was registered already. Raises QueueNotFound and
        NotFound. PGQ register_consumer_at.
        """
        return await self.runner.run(calls.consume.register_consumer_at(queue, consumer, tick))

    async def seek_consumer(
        self, queue: str, consumer: str, place: calls.consume.Place, *, discard: bool = False
    ) -> SeekResult:
        """Move a consumer, with its lanes or workers: events come again, or are skipped.

        A process that runs the consumer goes on there by itself; what it has open is lost. Events
        that come again have the same ids. Those of them that wait in the retry queue, or are
        parked, are dropped there; with `discard` all that waits or is parked is dropped.

        Args:
            queue: the queue.
            consumer: the consumer, which must be registered.
            place: a tick: its next batch begins after it. A datetime: every event that was
                committed then or later comes, and some from shortly before. "beginning": all that
                is kept. "end": what the last tick does not see.
            discard: drop all that waits in the retry queue, or is parked.

        Raises ConsumerNotFound; DatabaseRestored; RangeExpired or NotFound if the queue does
        not reach back so far, or has no such tick; ConsumerRunning if it belongs to a Spark
        stream.

            await client.seek_consumer("orders", "billing", datetime(2026, 11, 22, 14, 0))
        """
        call = calls.consume.seek_consumer(queue, consumer, place, discard=discard)
        return await self.runner.run(call)

    async def unregister_consumer(self, queue: str, consumer: str) -> int:
        """Remove a consumer from a queue, with its workers and its retried and dead events.

        Returns how many registrations were removed: 1 plus the number of subconsumers; 0 if there
        was none. PGQ unregister_consumer.
        """
        return await self.runner.run(calls.consume.unregister_consumer(queue, consumer))

    async def set_consumer_mode(
        self, queue: str, consumer: str, mode: calls.share.Mode | None
    ) -> int:
        """Decide whether one process runs a consumer ("plain") or workers share it ("shared").

        Its first run decides it too; None lets the next run decide. Returns 1 if that changed, else
        0. Raises ConsumerNotFound, and ConsumerRunning while it runs or has a batch open.
        """
        return await self.runner.run(calls.share.set_consumer_mode(queue, consumer, mode))

    async def set_lanes(self, queue: str, consumer: str, lanes: int, key: str) -> int:
        """Divide a consumer into lanes by a key: "type", or "extra1" to "extra4".

        Several processes then take batches of it, and events of one key are handled in order. The
        number and the key may be changed while it runs. Returns 1 if they changed, else 0. Raises
        ConsumerNotFound, InvalidArgument, and ConsumerRunning while it runs without lanes, or
        while an earlier change is not done.
        """
        return await self.runner.run(calls.lanes.set_lanes(queue, consumer, lanes, key))

    async def set_consumer_filter(
        self,
        queue: str,
        consumer: str,
        *,
        types: calls.filters.Types | None = None,
        extras: calls.filters.Extras | None = None,
    ) -> int:
        """Decide which events a consumer takes: of these types, with these values of extras.

        A type that ends with * is a prefix. An event has to meet all conditions; None is no
        condition: `types=["order.*"], extras={"extra1": ["eu", "us"]}`. Events that are not
        finished yet are read with the new filter. Returns 1 if the filter changed, else 0. Raises
        ConsumerNotFound, InvalidArgument, and ConsumerRunning while another session is at work.
        """
        return await self.runner.run(
            calls.filters.set_consumer_filter(queue, consumer, types, extras)
        )

    async def next_batch(
        self,
        queue: str,
        consumer: str,
        *,
        min_lag: Interval | None = None,
        min_count: int | None = None,
        min_interval: Interval | None = None,
    ) -> Batch | None:
        """Open the consumer's next batch. None: there is no newer tick yet.

        An unfinished batch is delivered again, less its finished parts, whatever the arguments.
        `min_lag` takes only ticks at least this old. With `min_count` ticks are merged until about
        so many events are in the batch, with `min_interval` until it spans this time, whichever
        comes first. Times are seconds or timedeltas. Raises ConsumerNotFound.
        PGQ next_batch_info; with limits next_batch_custom.

            while batch := await client.next_batch("orders", "billing"):
                async for event in client.get_batch_events(batch):
                    print(event.data)
                await client.finish_batch(batch)
        """
        call = calls.consume.next_batch(queue, consumer, min_lag, min_count, min_interval)
        return await self.runner.run(call)

    async def get_batch_info(self, batch: Batch | int) -> BatchInfo | None:
        """Return the consumer and the ticks of an open batch; None if there is no such batch.

        PGQ get_batch_info.
        """
        return await self.runner.run(calls.consume.get_batch_info(batch))

    async def get_batch_events(
        self, batch: Batch | int, *, fetch_size: int = calls.read.FETCH_SIZE
    ) -> abc.AsyncIterator[Event]:
        """Iterate over the events of a batch, by id, holding `fetch_size` of them at a time.

        A small batch is one SELECT. A large one is read through a cursor: inside a transaction
        PGQ's get_batch_cursor, so read it before the transaction ends; in autocommit a cursor WITH
        HOLD, so that no transaction stays open while the caller works on the events. The cursor is
        closed when the iterator is. With a pooler in transaction mode, call it inside a
        transaction. Raises BatchLost. PGQ get_batch_events.

            async for event in client.get_batch_events(batch):
                print(event.id, event.type, event.json())
        """
        async with aclosing(self.fetch_batch_events(batch, fetch_size)) as fetched:
            async for events in fetched:
                for event in events:
                    yield event

    async def fetch_batch_events(
        self, batch: Batch | int, fetch_size: int
    ) -> abc.AsyncGenerator[list[Event], None]:
        """Iterate over the same events as lists of at most `fetch_size`, which is faster.

        A batch of parked events, at most 1,000, is read at once. Close it if you stop early.
        """
        size, batch_id = calls.read.checked_fetch_size(fetch_size), calls.batch_id(batch)
        runner, origin = self.runner, self.runner.origin()
        wanted = calls.read.of_batch(batch_id)
        if isinstance(batch, Batch) and batch.parked:
            # In an order of their own, which pages by id would not keep.
            query = calls.read.select_at_most(calls.parked.MOST_TAKEN)
            events = await runner.read(wanted, query, wanted.params)
            for start in range(0, max(len(events), 1), size):
                yield events[start : start + size]
            return
        if calls.read.fits(batch, size):
            # The ticks only estimate the number of events. If there are more, a cursor reads all.
            query = calls.read.select_at_most(size + 1)
            events = await runner.read(wanted, query, wanted.params)
            if len(events) <= size:
                yield events
                return
        name = calls.read.cursor_name(batch_id)
        # Another thread or task may have the transaction of insert_events.
        async with runner.locked(origin), runner.settled():
            if not await runner.is_alone():
                first = await runner.read(wanted, calls.read.OPEN_CURSOR, (batch_id, name, size))
                reader = runner.fetch(wanted, name, size, first, held=False)
            elif runner.holds_cursors:
                await runner.hold_cursor(wanted, batch_id, name)
                reader = runner.fetch(wanted, name, size, None, held=True)
            else:
                reader = runner.read_pages(wanted, batch_id, size)
        async with aclosing(reader) as lists:
            async for some in lists:
                yield some

    async def event_retry(self, batch: Batch | int, event: Event | int, after: After) -> int:
        """Put one event of an open batch into the retry queue: 1 queued, 0 was there already.

        `after` is seconds or a timedelta from now, or an aware datetime: then the event is
        delivered again. PGQ event_retry.

        Raises BatchLost, NotFound, and InvalidArgument for a negative delay.
        """
        return await self.runner.run(calls.consume.event_retry(batch, event, after))

    async def event_retry_many(
        self, batch: Batch | int, retries: abc.Iterable[tuple[Event, After]]
    ) -> int:
        """Put many events of an open batch into the retry queue, each until a time; all or none.

        `retries` are pairs of an event and seconds, a timedelta or an aware datetime. One call,
        whose cost does not depend on the batch; with the extension pgq, one `event_retry` each.
        Returns the number of newly queued events, without those that were in the retry queue.

        Raises BatchLost, NotFound, and InvalidArgument for a negative delay.
        """
        pairs, origin = list(retries), self.runner.origin()
        if not await self.runner.is_extension():
            return await self.runner.run(calls.consume.event_retry_many(batch, pairs))
        queued = 0
        async with AsyncExitStack() as block:
            await block.enter_async_context(self.runner.locked(origin))
            if await self.runner.is_alone():
                await block.enter_async_context(inner_transaction(self.connection))
            for event, after in pairs:
                queued += await self.runner.run(calls.consume.event_retry(batch, event, after))
        return queued

    async def batch_retry(self, batch: Batch | int, after: Interval) -> int:
        """Put every event of an open batch into the retry queue; return the number of new ones.

        They are delivered again `after` seconds (or a timedelta) from now, rounded up to whole
        seconds. Raises BatchLost, and InvalidArgument for a negative delay. PGQ batch_retry.
        """
        return await self.runner.run(calls.consume.batch_retry(batch, after))

    async def finish_batch(self, batch: Batch | int) -> None:
        """Close a batch, and so move the consumer's position behind it. PGQ finish_batch.

        Raises BatchLost if it is not open any more: finished, taken over, or the consumer moved.
        """
        call = calls.consume.finish_batch(batch)
        if not await self.runner.run(call):
            raise BatchLost(batch_id=calls.batch_id(batch), function="finish_batch")

    async def finish_part(
        self,
        batch: Batch | int,
        up_to: Event | int | None,
        done: abc.Iterable[int] = (),
        *,
        position: int | None = None,
    ) -> None:
        """Finish a part of an open batch: the events with an id up to this event's.

        Later reads of the batch leave them out, and after a crash they are not delivered again.
        `finish_batch` still finishes the batch. Parked events are not in the order of their ids: of
        them only `up_to` itself and `done` are finished.

        Args:
            batch: the batch or its id.
            up_to: the last finished event or its id; None leaves the end of the part as it is.
            done: ids of later events that were finished out of order; the 1,000 lowest are kept.
            position: pgq.current_position.pos_no, as it was before the events were read. Then
                nothing is finished if another session has finished a part since.

        Raises:
            BatchLost: the batch is not open any more, or not at this position; InvalidArgument: the
            part would get smaller, or an id lies beyond the batch.
        """
        call = calls.consume.finish_part(batch, up_to, done, position)
        if not await self.runner.run(call):
            raise BatchLost(batch_id=calls.batch_id(batch), function="finish_part")
