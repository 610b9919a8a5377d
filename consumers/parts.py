"""How many events are taken at a time: batches, parts, lists. No I/O.

The ticker ticks every few milliseconds. A batch costs a commit and some round trips, however few
events are in it: a consumer that took the ticks one by one, a little slower than the ticker makes
them, would fall behind for ever. So one that is behind takes more and more ticks at a time.

A process that dies may have been killed by an event. The server counts how many processes began to
handle what is first in the open batch (`open_batch`). Each attempt takes smaller parts, and a part
that is finished stays finished: so the event that kills comes first and alone at last. An attempt
keeps the size of its parts when the position moves, and counts anew which event it is alone with.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING

from pgqpy.consumers import retry
from pgqpy.consumers.handlers import ProcessDied
from pgqpy.consumers.settings import handler_name, sets_part_size

if TYPE_CHECKING:
    from pgqpy.consumers.settings import BaseConsumer
    from pgqpy.records import Attempt, Batch, Event


LARGEST_LIST = 1000  # events; larger ones read no faster
UNREAD_BATCH = (
    "process_batch returned without having read the whole batch: its other events would be lost. "
    "If it reads several times, the pass begun last has to come to its end; or raise Retry to get "
    "the batch again"
)

SIZES = {2: 1000, 3: 30}  # events of a part, by attempt; later ones take one event
ALONE = 4  # the attempt from which on events come alone
QUIET_PARTS = 34  # 1,000 / 30: so many parts of 30 cover the part of 1,000 that killed


class Attempts:
    """The attempt at the open batch: how large its parts are, and which event is given up."""

    def __init__(self, consumer: BaseConsumer) -> None:
        """Have no batch open."""
        self._part_size = math.inf if consumer.whole_batches else consumer.part_size
        self._narrows = handler_name(consumer) == "process_event" or sets_part_size(consumer)
        self._gives_up = self._narrows and consumer.on_error != "stop"
        self._quiet = 0  # parts of this size in a row without a crash
        self.held: int | None = None  # the batch that this process has open
        self.count: int | None = None  # None: nobody counts, and the batch has no parts

    def opened(self, found: Attempt) -> str | None:
        """Note that the batch was opened; return what to log if processes died with it."""
        again, self.held = found.batch.id == self.held, found.batch.id
        self.count, self._quiet = found.attempts, 0
        died = (found.attempts or 1) - 1
        if again or died < 1:
            return None
        return (
            f"attempt {died + 1}: earlier processes died, or lost the server, with this batch open"
            f"; {self._suspects()}"
        )

    def _suspects(self) -> str:
        if not self._narrows:
            return (
                "one of its events may kill them, and with part_size in the class smaller parts "
                "would show which"
            )
        if self.count is not None and self.count > ALONE:
            what = "is dead" if self._gives_up else 'is not given up with on_error = "stop"'
            return f"the first event may kill them, and {what} after {retry.CRASHES} crashes"
        return f"its events come in parts of {self.size:,} for a while, to find one that kills"

    @property
    def size(self) -> float:
        """Events of a part; infinite where there are no parts, as for the extension pgq."""
        if self.count is None:
            return math.inf
        if self.count <= 1 or not self._narrows:
            return self._part_size
        return min(self._part_size, SIZES.get(self.count, 1))

    def after_part(self) -> int | None:
        """Return the attempt that counts after the part at hand, for finish_part.

        After the event that had all its crashes, and was given up, parts are large again. After
        many parts without a crash they are larger, but of full size only in the next batch: the
        event that kills may be anywhere in this one.
        """
        if self.count is None:
            return None
        if self.count > retry.CRASHES or not self._narrows:
            return 1
        attempt = min(self.count, ALONE)
        widens = attempt > min(SIZES) and self._quiet + 1 >= QUIET_PARTS
        return attempt - 1 if widens else attempt

    def part_finished(self) -> None:
        """Note that the part at hand was finished."""
        following = self.after_part()
        self._quiet = self._quiet + 1 if following == self.count else 0
        self.count = following

    def finished(self, batch: Batch) -> None:
        """Note that a batch was finished; another one may be open by now."""
        if self.held == batch.id:
            self.held = None

    def killer_error(self, part: list[Event]) -> ProcessDied | None:
        """Return the error of a part whose one event killed too many processes.

        An event and its retried copy are one event.
        """
        count = self.count or 0
        one = self._gives_up and count > retry.CRASHES and len({event.id for event in part}) == 1
        return ProcessDied(count - ALONE) if one else None


def most_failures(consumer: BaseConsumer) -> float:
    """Return after how many failures they are written, before the end of their batch or part.

    What is written while a transactional process_batch reads may be in a savepoint that it rolls
    back, or beside statements of its tasks and threads: so all of that waits for the end.
    """
    if consumer.is_transactional and handler_name(consumer) == "process_batch":
        return math.inf
    return list_size(consumer.part_size)


def list_size(part_size: float) -> int:
    """Return how many events are fetched at a time: lists end where parts do."""
    if part_size == math.inf:
        return LARGEST_LIST
    lists = math.ceil(part_size / LARGEST_LIST)
    return int(part_size // lists)


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
