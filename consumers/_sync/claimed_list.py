"""[Generated from _async/claimed_list.py by tools/unasync.py: edit that file, not this one.] A list of claimed events, as process_batch of a shared consumer reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.calls import failure_of
from pgqpy.consumers.retry import seconds
from pgqpy.records import Event, ListInfo

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from pgqpy.consumers.histograms import InsertTimes
    from pgqpy.consumers.in_hand import Work
    from pgqpy.consumers.measures import BatchTrace
    from pgqpy.records import Failure


class ClaimedList:
    """A list of claimed events. Iterate over it to read them, as often as you like.

    The pass that was begun last has to come to its end. When process_batch returns, all events are
    done but those for which `retry` or `dead` was called.
    """

    def __init__(self, work: Work, consumer: str) -> None:
        self.info = ListInfo(work.token, work.queue, consumer)
        self.size = len(work.events)
        self.inserted: InsertTimes | None = None  # if they are wanted
        self.trace: BatchTrace | None = None  # if the consumer is traced
        self.retries: dict[int, float] = {}  # seconds, by the event's id
        self.deaths: dict[int, Failure] = {}
        self._events = work.events
        self._begun = 0  # passes of the handler
        self._ended = 0  # the number of the last pass that came to its end

    @property
    def unread(self) -> bool:
        """Whether the pass that the handler began last stopped before the last event."""
        return self._ended != self._begun

    def __len__(self) -> int:
        """Return how many events there are."""
        return self.size

    def retry(self, event: Event, after: float | timedelta) -> None:
        """Let this event come again, after some seconds or a timedelta."""
        self._check_event("retry", event)
        self.retries[event.id] = seconds(after)

    def dead(self, event: Event, reason: str | BaseException) -> None:
        """Give this event up: keep it as a dead event, with a text or an exception."""
        self._check_event("dead", event)
        self.deaths[event.id] = failure_of(reason)

    def __iter__(self) -> Iterator[Event]:
        self._begun += 1
        if self.inserted is not None:
            self.inserted.clear()
            self.inserted.add(self._events)
        return self._read(self._begun)

    def _read(self, number: int) -> Iterator[Event]:
        for event in self._events:
            yield event
        self._ended = max(self._ended, number)

    def _check_event(self, method: str, event: object) -> None:
        if not isinstance(event, Event):
            raise TypeError(f"{method} takes an event of the list, not {type(event).__name__}")
        if all(event.id != known.id for known in self._events):
            raise ValueError(f"event {event.id} is not in this list")
