"""The loop for at-least-once delivery: no transaction is open while handlers run."""

from __future__ import annotations

from contextlib import aclosing, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg

from pgqpy.calls import consume, share
from pgqpy.consumers import waiting
from pgqpy.consumers._async.batch import AsyncPartReader, AsyncReadPosition
from pgqpy.consumers._async.loop import AsyncLoop
from pgqpy.consumers._async.session import NO_DISK_WAIT
from pgqpy.consumers.connections import EVENT_NOT_FOUND, is_a, is_collision
from pgqpy.consumers.handlers import HANDLER_ERRORS, HandlerFailed, check_key, check_result
from pgqpy.consumers.own_task import raise_if_cancelled
from pgqpy.consumers.parts import MAX_DONE, InOrderEnd, OutOfOrderEnd, list_size, split_at_id
from pgqpy.consumers.retry import backoff
from pgqpy.consumers.workers import AsyncWorkers, EventWindow
from pgqpy.errors import BatchLost, PgqError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from pgqpy.calls import Call
    from pgqpy.consumers._async.batch import AsyncOpenBatch
    from pgqpy.consumers.workers import KeyedEvent
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
        sent_at = waiting.boottime()
        check = self.position.check(batch.info)
        if not (await self.send(*check, *batch.failures.take(), move))[-1]:
            raise BatchLost(batch_id=batch.info.id)
        self.position.moved()
        self.held.part_finished(sent_at)

    async def confirm(self, batch: Batch) -> None:
        """Check the session, and send a heartbeat if the next one is overdue.

        Raises psycopg's error if the session has ended, BatchLost if the batch was taken over.
        """
        await self.check_session()
        if not self.held.is_silent:
            return
        asked_at = waiting.boottime()
        if not (await self.send(share.touch_batch(batch, self.consumer.lease)))[0]:
            raise BatchLost(batch_id=batch.id)
        self.held.beat(asked_at, is_open=True)

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


class AsyncSideBySide:
    """Processes the events of one batch with several workers.

    Memory holds a list of events: the next half of them is fetched when a half is finished.
    """

    def __init__(self, loop: AsyncPlainLoop, batch: AsyncOpenBatch, workers: AsyncWorkers) -> None:
        self._loop = loop
        self._batch = batch
        self._workers = workers
        self._window = EventWindow()
        self._parking = loop.parking
        self._key = self._parking.key if self._parking.on else loop.key
        self._part_size = loop.careful.part_size
        if self._parking.on:  # finish_part takes so many ids that were finished out of order
            self._part_size = min(self._part_size or MAX_DONE, MAX_DONE // 2)
        # So many events are handled beyond a slow one: memory holds their ids (G8).
        self._most = MAX_DONE // 2 if self._parking.on else max(MAX_DONE, self._part_size or 0)
        self._finished = OutOfOrderEnd()
        self._ahead: list[Event] = []  # read, but their copies may come with the next list

    async def run(self) -> bool:
        """Process the whole batch; False if it ended before its last event."""
        try:
            handled = await self._process()
            if not handled:
                await self._finish_part(1)
        except Exception:
            # The batch is lost or is delivered again. No handler of it may run beside the next
            # batch, or be counted there.
            await self._workers.drain()
            raise
        return handled

    async def _process(self) -> bool:
        half = max(list_size(self._loop.consumer) // 2, 1)
        if self._parking.on:
            half = min(half, MAX_DONE // 2)
        reader = self._loop.session.runner.fetch_batch_events(self._batch.info, half)
        async with aclosing(reader) as fetched:
            while events := await self._next_list(fetched, half):
                self._batch.note(events)
                keys = (key for key in self._window.keys if isinstance(key, str))
                unwritten = self._batch.failures.parked_keys
                await self._parking.look_up(self._batch.info, events, unwritten, *keys)
                for event in events:
                    self._add(event)
                if not await self._work_down_to(half):
                    return False
        return await self._work_down_to(0)

    async def _next_list(self, lists: AsyncGenerator[list[Event], None], size: int) -> list[Event]:
        """Read events. With parts, a list never ends between two copies of an id.

        A list of another size than `size` ends after all copies of its last id.
        """
        while True:
            read = await self._loop.session.next_list(lists)
            events, self._ahead = self._ahead + read, []
            if self._part_size is not None and len(read) == size:
                events, self._ahead = split_at_id(events)
            if events or not read:
                return events

    def _add(self, event: Event) -> None:
        if self._part_size is not None:
            self._finished.add(event.id)
        try:
            key = None if self._key is None else self._key(event)
            check_key(key)
            self._window.add(event, key)
        except Exception as error:  # noqa: BLE001  # the key function is the application's
            self._failed(event, error)
            self._note_finished(event)

    async def _work_down_to(self, left: int) -> bool:
        """Work until so many events are left; False if it ended before. Then no handler runs."""
        workers, window, stop = self._workers, self._window, self._loop.stop
        parked, most = self._parking.parked, self._most
        with self._loop.pace:
            while (
                len(window) > left
                or (window and self._finished.span > most)
                or (stop.is_set and workers.running)
            ):
                if self._loop.held.in_doubt:
                    await self._loop.confirm(self._batch.info)
                while workers.free and not stop.is_set and (item := window.take()) is not None:
                    if parked and item.key in parked:
                        self._wait_behind(item)
                    else:
                        workers.start(item)
                if workers.running:
                    await self._collect()
                elif stop.is_set:
                    return False
                await self._write()
        return not stop.is_set or not window

    async def _collect(self) -> None:
        """Wait until handlers have ended, and note what became of their events."""
        for item, error in await self._workers.wait():
            self._window.finish(item)
            if error is not None:
                await self._ended(item.event, error)
            self._note_finished(item.event)

    def _wait_behind(self, item: KeyedEvent) -> None:
        self._window.finish(item)
        self._batch.failures.wait_behind(item.event)
        self._note_finished(item.event)

    async def _write(self) -> None:
        """Finish a part if it is large enough, and write the failures if there are many."""
        if self._part_size is not None:
            await self._finish_part(self._part_size)
        if self._batch.failures.full and self._parking.on:
            await self._finish_part(1)
        elif self._batch.failures.full:
            await self._batch.failures.flush()

    def _note_finished(self, event: Event) -> None:
        if self._part_size is not None:
            self._finished.finish(event.id)

    async def _finish_part(self, size: int) -> None:
        """Finish a part if at least `size` events were finished since the last part."""
        if self._finished.count >= size:
            up_to, done = self._finished.end()
            if up_to is not None or done:
                await self._loop.finish_part(self._batch, up_to, done)

    async def _ended(self, event: Event, error: BaseException) -> None:
        if not is_a(error, HANDLER_ERRORS):
            self._loop.event = event
            await self._workers.drain()
            raise error
        self._failed(event, error)

    def _failed(self, event: Event, error: BaseException) -> None:
        if self._loop.wants_stop(error):
            self._loop.event = event
            raise HandlerFailed(error) from error
        self._batch.failures.judge(event, error)
