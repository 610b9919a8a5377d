"""The loop for at-least-once delivery: no transaction is open while handlers run."""

from __future__ import annotations

from contextlib import aclosing, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg

from pgqpy.calls import consume, share
from pgqpy.consumers import clock
from pgqpy.consumers._async.loop import AsyncLoop
from pgqpy.consumers._async.part_reader import AsyncPartReader
from pgqpy.consumers._async.read_position import AsyncReadPosition
from pgqpy.consumers._async.session import NO_DISK_WAIT
from pgqpy.consumers._async.side_by_side import AsyncSideBySide
from pgqpy.consumers.connection_errors import EVENT_NOT_FOUND, is_collision
from pgqpy.consumers.handlers import HANDLER_ERRORS, HandlerFailed, check_result
from pgqpy.consumers.own_task import raise_if_cancelled
from pgqpy.consumers.parts import InOrderEnd
from pgqpy.consumers.retry import backoff
from pgqpy.consumers.workers import AsyncWorkers
from pgqpy.errors import BatchLost, PgqError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pgqpy.calls import Call
    from pgqpy.consumers._async.batch import AsyncOpenBatch
    from pgqpy.records import Batch, Event

# process_event never sees a batch's id or ticks. So a batch is opened without waiting for the disk,
# and its events are delivered sooner: should the server crash before the position is written, they
# are delivered again in another batch. finish_batch waits for the disk, and with it for everything
# before. process_batch may store ids and ticks elsewhere: so both opening and finishing wait.
OPEN_SETTINGS = (NO_DISK_WAIT,)

COLLISION_BASE = 0.01  # seconds
COLLISION_MAX = 1.0  # seconds


class AsyncPlainLoop(AsyncLoop):
    """Opens a batch, calls the handler for its events, finishes it, opens the next."""

    _workers: AsyncWorkers | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.position = AsyncReadPosition(self.consumer, self.session, self.careful)
        self.parking.check = self.position.check

    @property
    def in_progress(self) -> str | None:
        """The events or the batch that handlers are working on, for the log."""
        if self._workers is None:
            return super().in_progress
        running = list(self._workers.running.values())  # a copy: another thread asks
        ids = [item.event.id for item in running]
        return f"{len(ids)} events from {min(ids)} on" if ids else super().in_progress

    async def run(self) -> None:
        """Work until `stop`; the open batch is then finished only if all of it was handled."""
        if self.by_event:
            self.open_settings = OPEN_SETTINGS
        if self.consumer.concurrency > 1:
            self._workers = AsyncWorkers(self.process_event, self.consumer.concurrency)
        async with self._workers or nullcontext():
            await self._take_batches()

    async def _take_batches(self) -> None:
        _, found = await self.open_next()
        while not self.stop.is_set:
            if found is None:
                await self.wait()
                _, found = await self.open_next()
            else:
                found = await self._process(found)

    async def _process(self, info: Batch) -> Batch | None:
        """Process and finish a batch; return the next one, None if there is none or at `stop`."""
        batch = self.make_batch(info)
        try:
            await self.position.read(info)
            handled = await self._process_batch(batch)
            raise_if_cancelled()
            if handled:
                return await self._finish_and_open_next(self.current)
            if self.stop.is_set:
                return None
        except PgqError as error:
            if error.sqlstate == EVENT_NOT_FOUND:
                await self.event_not_in_batch(info, error)
            elif not await self.is_batch_lost(info, error):
                raise
        except HandlerFailed as failure:
            if self.by_event or self.wants_stop(failure.error):
                raise
            await self.back_off(info, failure.error)
        _, found = await self.open_next()
        return found

    async def _process_batch(self, batch: AsyncOpenBatch) -> bool:
        """Process a batch; False if `stop` came before its end."""
        if self.careful.part_size is None and not self.by_event:
            return await self.handle_batch(batch)
        if self.careful.active or not self.by_event:
            return await self._process_parts(batch.info)
        if self._workers is None or self.lock.one_by_one:
            return await self._process_events(batch)
        return await AsyncSideBySide(self, batch, self._workers).run()

    async def _process_parts(self, info: Batch) -> bool:
        """Handle one part after the other; False if it ended before the last one."""
        while not self.stop.is_set and (size := self.careful.part_size) is not None:
            async with aclosing(AsyncPartReader(self.session, info, size)) as reader:
                while not self.stop.is_set and size == self.careful.part_size:
                    events = await reader.next()
                    part = self.make_batch(info, events)
                    if not await self._process_part(part, events):
                        return False
                    if reader.last:
                        return True
                    await self.finish_part(part, events[-1].id)
                    await self.batch_finished(whole=False)
        return False

    async def _process_part(self, part: AsyncOpenBatch, events: list[Event]) -> bool:
        if not await self.ends_confirmed(part.info, events):
            return False
        if self.give_up(part, events):
            return True
        return await (self._process_events(part) if self.by_event else self.handle_batch(part))

    async def _process_events(self, batch: AsyncOpenBatch) -> bool:
        """Call the handler for each event; False if it ended before the last one."""
        part = InOrderEnd(self.careful.part_size)
        async with aclosing(batch.fetch()) as lists:
            async for events in lists:
                full = self.parking.at_ends and batch.failures.full
                if events and (end := part.end_before(events[0], full=full)) is not None:
                    await self.finish_part(batch, end)
                await self.parking.look_up(batch.info, events, batch.failures.parked_keys)
                with self.pace:
                    handled = await self._call_handlers(batch, events)
                if handled < len(events):
                    following = events[handled]
                    part.add([event for event in events[:handled] if event.id != following.id])
                    if (end := part.end_before(following, stop=True)) is not None:
                        await self.finish_part(batch, end)
                    return False
                part.add(events)
        return True

    async def _call_handlers(self, batch: AsyncOpenBatch, events: list[Event]) -> int:
        """Call the handler for each event until `stop`; return how many were handled."""
        # The path of every event: local names, no call but the handler's.
        handle, stop, held, parked = self.process_event, self.stop, self.held, self.parking.parked
        has_workers = self.consumer.has_workers
        for event in events:
            if held.must_check or (has_workers and held.is_silent):
                await self.confirm(batch.info)
            if stop.is_set:
                return events.index(event)
            if parked and self.parking.waits(event):
                batch.failures.wait_behind(event)
                continue
            self.event = event
            try:
                result = await handle(event)
                if result is not None:
                    check_result(result)
            except HANDLER_ERRORS as error:
                raise_if_cancelled(error)
                if self.wants_stop(error):
                    raise HandlerFailed(error) from error
                batch.failures.judge(event, error)
        return len(events)

    def make_batch(self, info: Batch, part: list[Event] | None = None) -> AsyncOpenBatch:
        """As in the base class. The batch also calls `confirm` between two events, if in doubt.

        With a lease, its failures are written with the check of the position.
        """
        batch = super().make_batch(info, part)
        if not self.by_event:
            batch.held, batch.confirm = self.held, self.confirm
        if self.position.enabled:
            batch.failures.write_at_position = partial(self._write_failures, batch)
        return batch

    async def finish_part(
        self, batch: AsyncOpenBatch, up_to: int | None, done: Iterable[int] = ()
    ) -> None:
        """Write the failures, and finish the part of the batch that ends with this event id."""
        await self._write(batch, batch.finish_part(up_to, done))

    async def _write_failures(self, batch: AsyncOpenBatch) -> None:
        await self._write(batch, consume.move_on(batch.info))

    async def _write(self, batch: AsyncOpenBatch, move: Call[bool]) -> None:
        sent_at = clock.now()
        check = self.position.check(batch.info)
        if not (await self.send(*check, *batch.failures.take(), move))[-1]:
            raise BatchLost(batch_id=batch.info.id)
        self.position.moved()
        self.held.part_finished(sent_at)

    async def confirm(self, batch: Batch) -> None:
        """Check the session, and give a sign of life if the next one is overdue.

        Raises psycopg's error if the session has ended, BatchLost if the batch was taken over.
        """
        await self.check_session()
        if not self.held.is_silent:
            return
        asked_at = clock.now()
        if not (await self.send(share.touch_batch(batch, self.consumer.lease)))[0]:
            raise BatchLost(batch_id=batch.id)
        self.held.signed(asked_at, is_open=True)

    async def _finish_and_open_next(self, batch: AsyncOpenBatch) -> Batch | None:
        """Write the failures, finish the batch and open the next one, in one round trip."""
        check = self.position.check(batch.info)
        wanted = [*check, *batch.failures.take(), consume.finish_batch(batch.info)]
        found: Batch | None = None
        if self.stop.is_set:
            results = await self.send(*wanted)
        elif self.consumer.has_workers:
            # Both in one transaction could deadlock: taking a batch locks the consumer, then the
            # subconsumer that finishing has locked.
            results = await self.send(*wanted)
            _, found = await self.open_next()
        else:
            results, found = await self.open_next(*wanted)
        if results[-1]:
            await self.batch_finished()
        else:
            await self.is_batch_lost(batch.info, BatchLost(batch_id=batch.info.id))
        return found

    async def send(self, *wanted: Call[Any]) -> list[Any]:
        """Send calls as one transaction; repeat it if it collides with another one."""
        for collisions in range(10):
            try:
                return await super().send(*wanted)
            except psycopg.Error as error:
                if not is_collision(error):
                    raise
                delay = backoff(collisions, base=COLLISION_BASE, maximum=COLLISION_MAX)
                await self.stop.wait(delay)
        return await super().send(*wanted)
