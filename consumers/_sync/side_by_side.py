"""[Generated from _async/side_by_side.py by tools/unasync.py: edit that file, not this one.] Handlers of one batch side by side: `concurrency` events at a time, those of a key in order."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from pgqpy.consumers.connection_errors import is_a
from pgqpy.consumers.handlers import HANDLER_ERRORS, HandlerFailed, check_key
from pgqpy.consumers.parts import MAX_DONE, OutOfOrderEnd, list_size, split_at_id
from pgqpy.consumers.window import EventWindow

if TYPE_CHECKING:
    from collections.abc import Generator

    from pgqpy.consumers._sync.batch import OpenBatch
    from pgqpy.consumers._sync.plain import PlainLoop
    from pgqpy.consumers.window import KeyedEvent
    from pgqpy.consumers.workers import Workers
    from pgqpy.records import Event


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
        parked, most = self._parking.parked, MAX_DONE // 2 if self._parking.on else MAX_DONE
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
