"""How many events are taken at a time: batches, ranges of workers, parts, lists. No I/O.

The ticker ticks every few milliseconds. A batch costs a commit and some round trips, however few
events are in it: a consumer that took the ticks one by one, a little slower than the ticker makes
them, would fall behind for ever. So one that is behind takes more and more ticks at a time.

An event and its retried copy may be in one batch, with the same id. finish_part finishes an id with
all its copies. So a part ends at an id only if the next event has another one.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from datetime import timedelta
from typing import TYPE_CHECKING

from pgqpy.consumers.settings import handler_name

if TYPE_CHECKING:
    from pgqpy.consumers.settings import BaseConsumer
    from pgqpy.records import Batch, Event


LARGEST_LIST = 1000  # events; larger ones read no faster
MAX_DONE = 1000  # ids that finish_part takes beyond the end of a part
UNREAD = (
    "process_batch returned without having read the whole batch: its other events would be lost. "
    "If it reads several times, the pass begun last has to come to its end; or raise Retry to get "
    "the batch again"
)


def most_failures(consumer: BaseConsumer) -> float:
    """Return after how many failures they are written, before the end of their batch or part.

    What is written while a transactional process_batch reads may be in a savepoint that it rolls
    back, or beside statements of its tasks and threads: so all of that waits for the end.
    """
    if consumer.is_transactional and handler_name(consumer) == "process_batch":
        return math.inf
    return list_size(consumer)


def list_size(consumer: BaseConsumer) -> int:
    """Return how many events are fetched at a time: lists end where parts do."""
    lists = -(-consumer.part_size // LARGEST_LIST)
    return consumer.part_size // lists


class InOrderEnd:
    """The end of the part, for events that are handled one after the other."""

    def __init__(self, size: int | None) -> None:
        self._size = size
        self._count = 0  # events of the part
        self._last: int | None = None  # id of the last of them

    def add(self, events: list[Event]) -> None:
        """Note that these events were handled."""
        if events:
            self._count += len(events)
            self._last = events[-1].id

    def end_before(self, following: Event, *, stop: bool = False, full: bool = False) -> int | None:
        """Return the id that the part ends with; None if it goes on with the following event.

        `stop` ends a part of any size, and `full` also one where the extension pgq has none.
        """
        if self._last is None or self._last == following.id or not self._count:
            return None
        sized = self._size is not None and (stop or self._count >= self._size)
        if not (sized or full):
            return None
        self._count = 0
        return self._last


class OutOfOrderEnd:
    """The end of the part, for events that are handled side by side.

    Add all copies of an id before one of them is finished.
    """

    def __init__(self) -> None:
        self._order: deque[int] = deque()  # of fetched events, from the lowest unfinished one on
        self._unfinished: Counter[int] = Counter()  # copies of each id in the order
        self.count = 0  # events finished since the last part
        self._up_to: int | None = None

    @property
    def span(self) -> int:
        """How many events lie from the lowest unfinished one to the last fetched one."""
        return len(self._order)

    def add(self, event_id: int) -> None:
        """Note an event that was fetched."""
        self._order.append(event_id)
        self._unfinished[event_id] += 1

    def finish(self, event_id: int) -> None:
        """Note that an event is finished."""
        self._unfinished[event_id] -= 1
        self.count += 1

    def end(self) -> tuple[int | None, list[int]]:
        """Return the id that the part ends with, and the finished ids beyond it."""
        order, unfinished = self._order, self._unfinished
        while order and not unfinished[order[0]]:
            self._up_to = order.popleft()
            if not order or self._up_to != order[0]:
                del unfinished[self._up_to]
        done = dict.fromkeys(event_id for event_id in order if not unfinished[event_id])
        self.count = 0
        return self._up_to, list(done)[:MAX_DONE]


def split_at_id(events: list[Event]) -> tuple[list[Event], list[Event]]:
    """Split off the copies of the last id: more of them may come with the next list."""
    end = len(events)
    while end and events[end - 1].id == events[-1].id:
        end -= 1
    return events[:end], events[end:]


Limits = tuple[int | None, "timedelta | float | None"]  # min_count, min_interval (seconds)

MAX_INTERVAL = timedelta(days=365)  # a min_interval of more than a century is refused
MAX_RATIO = 100  # events of the queue for each that a filter lets through


class BatchLimits:
    """The min_count and min_interval for next_batch.

    min_interval doubles each time the next batch is available at once; min_count ends a batch that
    would get too large. It counts events of the queue, so it is larger where a filter takes few.
    """

    def __init__(self, *, most: int, own: Limits = (None, None)) -> None:
        """Take the estimated events of a large batch, and the limits that the application set.

        The application's limits are never changed.
        """
        self._most = most
        self._own = own
        self._has_batch = False  # and did not wait since
        self._interval: timedelta | None = None
        self._ratio = 1.0  # events of the queue for each that the filter lets through

    @property
    def current(self) -> Limits:
        """The limits to ask for the next batch with; (None, None) is the next tick."""
        most = round(self._most * self._ratio)
        return self._own if self._interval is None else (most, self._interval)

    def adapt(self, batch: Batch | None) -> bool:
        """Adapt the limits to what next_batch returned; True: ask once more, now without limits.

        None under limits means only that the ticks left do not span the interval.
        """
        if batch is None:
            again = self._interval is not None
            self._has_batch, self._interval = False, None
            return again
        if self._has_batch and self._own == (None, None):
            # A clock that was set back or forward between the ticks makes their distance negative
            # or very large: neither says how many ticks to take.
            interval = 2 * (batch.tick_time - batch.prev_tick_time)
            self._interval = min(interval, MAX_INTERVAL) if interval > timedelta(0) else None
        self._has_batch = True
        return False

    def count(self, batch: Batch, events: int) -> None:
        """Note how many events of a batch came through the consumer's filter."""
        estimated = batch.event_seq - batch.prev_event_seq
        self._ratio = min(max(estimated / max(events, 1), 1.0), MAX_RATIO)


WANTED_TIME = 0.5  # seconds of a worker's own work
SLOW = 0.004  # seconds an event; below, to cut a range costs more than to share it saves


class Pace:
    """Measures the handlers of a worker. `wanted` is for take_part: None takes a range uncut.

    `with` measures: handlers run in its block. Taking, reading and finishing a batch stay outside,
    because a batch of one event spends most of its time on these round trips.

    Before the first batch the worker wants one event for each handler that runs side by side. If
    the handlers are slow, a worker with a whole range would leave nothing to the others. A handler
    of batches may take long for each batch, however small, so it begins with one list.
    """

    def __init__(self, consumer: BaseConsumer) -> None:
        """Know nothing yet. What is measured is kept when a session is lost."""
        by_event = handler_name(consumer) == "process_event"
        self.wanted: int | None = consumer.concurrency if by_event else list_size(consumer)
        self._began = self._spent = 0.0

    def __enter__(self) -> None:
        """Note that handlers run."""
        self._began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        """Note that no handler runs."""
        self._spent += time.monotonic() - self._began

    def begin(self) -> None:
        """Note that another batch begins."""
        self._spent = 0.0

    def end(self, events: int) -> None:
        """Note that the batch is handled: so many events."""
        if not events:
            return
        each = self._spent / events
        self.wanted = max(1, int(WANTED_TIME / each)) if each > SLOW else None
