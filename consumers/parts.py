"""How far the events of an open batch are finished, and where a part of it may end. No I/O.

An event and its retried copy may be in one batch, with the same id. finish_part finishes an id with
all its copies. So a part ends at an id only if the next event has another one.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from typing import TYPE_CHECKING

from pgqpy.consumers.settings import handler_name

if TYPE_CHECKING:
    from pgqpy.consumers.settings import BaseConsumer
    from pgqpy.records import Event

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
