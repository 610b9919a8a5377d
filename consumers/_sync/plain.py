"""[Generated from _async/plain.py by tools/unasync.py: edit that file, not this one.] The loop for at-least-once delivery: no transaction is open while handlers run."""

from __future__ import annotations

from contextlib import closing, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg

from pgqpy.calls import consume, share
from pgqpy.consumers import waiting
from pgqpy.consumers._sync.batch import PartReader, ReadPosition
from pgqpy.consumers._sync.loop import Loop
from pgqpy.consumers._sync.session import NO_DISK_WAIT
from pgqpy.consumers.connections import EVENT_NOT_FOUND, is_a, is_collision
from pgqpy.consumers.handlers import HANDLER_ERRORS, HandlerFailed, check_key, check_result
from pgqpy.consumers.own_task import raise_if_cancelled
from pgqpy.consumers.parts import MAX_DONE, InOrderEnd, OutOfOrderEnd, list_size, split_at_id
from pgqpy.consumers.retry import backoff
from pgqpy.consumers.workers import Workers, EventWindow
from pgqpy.errors import BatchLost, PgqError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from pgqpy.calls import Call
    from pgqpy.consumers._sync.batch import OpenBatch
    from pgqpy.consumers.workers import KeyedEvent
    from pgqpy.records import Batch, Event


# process_event never sees a batch's id or ticks. So a batch is opened without waiting for the disk,
# and its events are delivered sooner: should the server crash before the position is written, they
# are delivered again in another batch. finish_batch waits for the disk, and with it for everything
# before. process_batch may store ids and ticks elsewhere: so both opening and finishing wait.
OPEN_SETTINGS = (NO_DISK_WAIT,)

COLLISION_BASE = 0.01  # seconds
COLLISION_MAX = 1.0  # seconds


class PlainLoop(Loop):
    """Opens a batch, calls the handler for its events, finishes it, opens the next."""

    _workers: Workers | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.position = ReadPosition(self.consumer, self.session, self.careful)
        self.parking.check = self.position.check

    @property
    def in_progress(self) -> str | None:
        """The events or the batch that handlers are working on, for the log."""
        if self._workers is None:
            return super().in_progress
        running = list(self._workers.running.values())  # a copy: another thread asks
        ids = [item.event.id for item in running]
        return f"{len(ids)} events from {min(ids)} on" if ids else super().in_progress

    def run(self) -> None:
        """Work until `stop`; the open batch is then finished only if all of it was handled."""
        if self.by_event:
            self.open_settings = OPEN_SETTINGS
        if self.consumer.concurrency > 1:
            self._workers = Workers(self.process_event, self.consumer.concurrency)
        with self._workers or nullcontext():
            self._take_batches()

    def _take_batches(self) -> None:
        _, found = self.open_next()
        while not self.stop.is_set:
            if found is None:
                self.wait()
                _, found = self.open_next()
            else:
                found = self._process(found)

    def _process(self, info: Batch) -> Batch | None:
        """Process and finish a batch; return the next one, None if there is none or at `stop`."""
        batch = self.make_batch(info)
        try:
            self.position.read(info)
            handled = self._process_batch(batch)
            raise_if_cancelled()
            if handled:
                return self._finish_and_open_next(self.current)
            if self.stop.is_set:
                return None
        except PgqError as error:
            if error.sqlstate == EVENT_NOT_FOUND:
                self.event_not_in_batch(info, error)
            elif not self.is_batch_lost(info, error):
                raise
        except HandlerFailed as failure:
            if self.by_event or self.wants_stop(failure.error):
                raise
            self.back_off(info, failure.error)
        _, found = self.open_next()
        return found

    def _process_batch(self, batch: OpenBatch) -> bool:
        """Process a batch; False if `stop` came before its end."""
        if self.careful.part_size is None and not self.by_event:
            return self.handle_batch(batch)
        if self.careful.active or not self.by_event:
            return self._process_parts(batch.info)
        if self._workers is None or self.lock.one_by_one:
            return self._process_events(batch)
        return SideBySide(self, batch, self._workers).run()

    def _process_parts(self, info: Batch) -> bool:
        """Handle one part after the other; False if it ended before the last one."""
        while not self.stop.is_set and (size := self.careful.part_size) is not None:
            with closing(PartReader(self.session, info, size)) as reader:
                while not self.stop.is_set and size == self.careful.part_size:
                    events = reader.next()
                    part = self.make_batch(info, events)
                    if not self._process_part(part, events):
                        return False
                    if reader.last:
                        return True
                    self.finish_part(part, events[-1].id)
                    self.batch_finished(whole=False)
        return False

    def _process_part(self, part: OpenBatch, events: list[Event]) -> bool:
        if not self.ends_confirmed(part.info, events):
            return False
        if self.give_up(part, events):
            return True
        return (self._process_events(part) if self.by_event else self.handle_batch(part))

    def _process_events(self, batch: OpenBatch) -> bool:
        """Call the handler for each event; False if it ended before the last one."""
        part = InOrderEnd(self.careful.part_size)
        with closing(batch.fetch()) as lists:
            for events in lists:
                full = self.parking.at_ends and batch.failures.full
                if events and (end := part.end_before(events[0], full=full)) is not None:
                    self.finish_part(batch, end)
                self.parking.look_up(batch.info, events, batch.failures.parked_keys)
                with self.pace:
                    handled = self._call_handlers(batch, events)
                if handled < len(events):
                    following = events[handled]
                    part.add([event for event in events[:handled] if event.id != following.id])
                    if (end := part.end_before(following, stop=True)) is not None:
                        self.finish_part(batch, end)
                    return False
                part.add(events)
        return True

    def _call_handlers(self, batch: OpenBatch, events: list[Event]) -> int:
        """Call the handler for each event until `stop`; return how many were handled."""
        # The path of every event: local names, no call but the handler's.
        handle, stop, held, parked = self.process_event, self.stop, self.held, self.parking.parked
        has_workers = self.consumer.has_workers
        for event in events:
            if held.must_check or (has_workers and held.is_silent):
                self.confirm(batch.info)
            if stop.is_set:
                return events.index(event)
            if parked and self.parking.waits(event):
                batch.failures.wait_behind(event)
                continue
            self.event = event
            try:
                result = handle(event)
                if result is not None:
                    check_result(result)
            except HANDLER_ERRORS as error:
                raise_if_cancelled(error)
                if self.wants_stop(error):
                    raise HandlerFailed(error) from error
                batch.failures.judge(event, error)
        return len(events)

    def make_batch(self, info: Batch, part: list[Event] | None = None) -> OpenBatch:
        """As in the base class. The batch also calls `confirm` between two events, if in doubt.

        With a lease, its failures are written with the check of the position.
        """
        batch = super().make_batch(info, part)
        if not self.by_event:
            batch.held, batch.confirm = self.held, self.confirm
        if self.position.enabled:
            batch.failures.write_at_position = partial(self._write_failures, batch)
        return batch

    def finish_part(
        self, batch: OpenBatch, up_to: int | None, done: Iterable[int] = ()
    ) -> None:
        """Write the failures, and finish the part of the batch that ends with this event id."""
        self._write(batch, batch.finish_part(up_to, done))

    def _write_failures(self, batch: OpenBatch) -> None:
        self._write(batch, consume.move_on(batch.info))

    def _write(self, batch: OpenBatch, move: Call[bool]) -> None:
        sent_at = waiting.boottime()
        check = self.position.check(batch.info)
        if not (self.send(*check, *batch.failures.take(), move))[-1]:
            raise BatchLost(batch_id=batch.info.id)
        self.position.moved()
        self.held.part_finished(sent_at)

    def confirm(self, batch: Batch) -> None:
        """Check the session, and send a heartbeat if the next one is overdue.

        Raises psycopg's error if the session has ended, BatchLost if the batch was taken over.
        """
        self.check_session()
        if not self.held.is_silent:
            return
        asked_at = waiting.boottime()
        if not (self.send(share.touch_batch(batch, self.consumer.lease)))[0]:
            raise BatchLost(batch_id=batch.id)
        self.held.beat(asked_at, is_open=True)

    def _finish_and_open_next(self, batch: OpenBatch) -> Batch | None:
        """Write the failures, finish the batch and open the next one, in one round trip."""
        check = self.position.check(batch.info)
        wanted = [*check, *batch.failures.take(), consume.finish_batch(batch.info)]
        found: Batch | None = None
        if self.stop.is_set:
            results = self.send(*wanted)
        elif self.consumer.has_workers:
            # Both in one transaction could deadlock: taking a batch locks the consumer, then the
            # subconsumer that finishing has locked.
            results = self.send(*wanted)
            _, found = self.open_next()
        else:
            results, found = self.open_next(*wanted)
        if results[-1]:
            self.batch_finished()
        else:
            self.is_batch_lost(batch.info, BatchLost(batch_id=batch.info.id))
        return found

    def send(self, *wanted: Call[Any]) -> list[Any]:
        """Send calls as one transaction; repeat it if it collides with another one."""
        for collisions in range(10):
            try:
                return super().send(*wanted)
            except psycopg.Error as error:
                if not is_collision(error):
                    raise
                delay = backoff(collisions, base=COLLISION_BASE, maximum=COLLISION_MAX)
                self.stop.wait(delay)
        return super().send(*wanted)


class SideBySide:
    """Processes the events of one batch with several workers.

    Memory holds a list of events: the next half of them is fetched when a half is finished.
    """

    def __init__(self, loop: PlainLoop, batch: OpenBatch, workers: Workers) -> None:
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

    def run(self) -> bool:
        """Process the whole batch; False if it ended before its last event."""
        try:
            handled = self._process()
            if not handled:
                self._finish_part(1)
        except Exception:
            # The batch is lost or is delivered again. No handler of it may run beside the next
            # batch, or be counted there.
            self._workers.drain()
            raise
        return handled

    def _process(self) -> bool:
        half = max(list_size(self._loop.consumer) // 2, 1)
        if self._parking.on:
            half = min(half, MAX_DONE // 2)
        reader = self._loop.session.runner.fetch_batch_events(self._batch.info, half)
        with closing(reader) as fetched:
            while events := self._next_list(fetched, half):
                self._batch.note(events)
                keys = (key for key in self._window.keys if isinstance(key, str))
                unwritten = self._batch.failures.parked_keys
                self._parking.look_up(self._batch.info, events, unwritten, *keys)
                for event in events:
                    self._add(event)
                if not self._work_down_to(half):
                    return False
        return self._work_down_to(0)

    def _next_list(self, lists: Generator[list[Event], None, None], size: int) -> list[Event]:
        """Read events. With parts, a list never ends between two copies of an id.

        A list of another size than `size` ends after all copies of its last id.
        """
        while True:
            read = self._loop.session.next_list(lists)
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

    def _work_down_to(self, left: int) -> bool:
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
                    self._loop.confirm(self._batch.info)
                while workers.free and not stop.is_set and (item := window.take()) is not None:
                    if parked and item.key in parked:
                        self._wait_behind(item)
                    else:
                        workers.start(item)
                if workers.running:
                    self._collect()
                elif stop.is_set:
                    return False
                self._write()
        return not stop.is_set or not window

    def _collect(self) -> None:
        """Wait until handlers have ended, and note what became of their events."""
        for item, error in self._workers.wait():
            self._window.finish(item)
            if error is not None:
                self._ended(item.event, error)
            self._note_finished(item.event)

    def _wait_behind(self, item: KeyedEvent) -> None:
        self._window.finish(item)
        self._batch.failures.wait_behind(item.event)
        self._note_finished(item.event)

    def _write(self) -> None:
        """Finish a part if it is large enough, and write the failures if there are many."""
        if self._part_size is not None:
            self._finish_part(self._part_size)
        if self._batch.failures.full and self._parking.on:
            self._finish_part(1)
        elif self._batch.failures.full:
            self._batch.failures.flush()

    def _note_finished(self, event: Event) -> None:
        if self._part_size is not None:
            self._finished.finish(event.id)

    def _finish_part(self, size: int) -> None:
        """Finish a part if at least `size` events were finished since the last part."""
        if self._finished.count >= size:
            up_to, done = self._finished.end()
            if up_to is not None or done:
                self._loop.finish_part(self._batch, up_to, done)

    def _ended(self, event: Event, error: BaseException) -> None:
        if not is_a(error, HANDLER_ERRORS):
            self._loop.event = event
            self._workers.drain()
            raise error
        self._failed(event, error)

    def _failed(self, event: Event, error: BaseException) -> None:
        if self._loop.wants_stop(error):
            self._loop.event = event
            raise HandlerFailed(error) from error
        self._batch.failures.judge(event, error)
