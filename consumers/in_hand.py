"""The claimed events of a process: those that wait, and those that workers have. No I/O.

Events that have a key are handled in their order: workers have one of each key at a time. Suspects
are events of which one may have killed a process. They are handled when nothing else is claimed, so
that a second crash tells more.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from pgqpy.calls.inflight import Claim
    from pgqpy.records import Event


@dataclass(eq=False, slots=True)
class Work:
    """The events of one call of a handler: one event, or a list."""

    queue: str
    holder: int  # whose lease counts
    token: int  # of the claim
    events: list[Event]
    suspect: bool = False
    key: Hashable = None  # None: there is no order

    @property
    def ids(self) -> list[int]:
        """The ids of the events."""
        return [event.id for event in self.events]

    @property
    def claimed(self) -> list[tuple[int, int]]:
        """The token of each event, and its id."""
        return [(self.token, event.id) for event in self.events]

    def __str__(self) -> str:
        """Name the events and their queue, for the log."""
        first, number = self.events[0].id, len(self.events)
        events = f"event {first}" if number == 1 else f"{number} events from {first} on"
        return f"{events} of queue {self.queue}"


class InHand:
    """The work that was claimed and has not ended."""

    def __init__(self, key: Callable[[Event], Hashable] | None, *, in_lists: bool) -> None:
        """Take the function from an event to its key; in lists, the server keeps the order."""
        self._key = None if in_lists else key
        self._in_lists = in_lists
        self._ready: deque[Work] = deque()
        self._suspects: deque[Work] = deque()
        self._behind: dict[Hashable, deque[Work]] = {}  # by each key that is before it
        self.given: set[Work] = set()  # to workers

    @property
    def has_suspects(self) -> bool:
        """Whether there are suspects: then nothing else is claimed."""
        return bool(self._suspects) or any(work.suspect for work in self.given)

    @property
    def tokens(self) -> set[int]:
        """The tokens of all claims in hand."""
        return {work.token for work in (*self.given, *self._not_given())}

    def add(self, queue: str, holder: int, claim: Claim) -> None:
        """Add the events of a claim."""
        token, suspect, events = claim
        for part in [events] if self._in_lists else [[event] for event in events]:
            work = Work(queue, holder, token, part, suspect)
            value = None if self._key is None else self._key(part[0])
            if value is not None:
                work.key = (queue, value)
                if work.key in self._behind:
                    self._behind[work.key].append(work)
                    continue
                self._behind[work.key] = deque()
            self._line(work).append(work)

    def give(self, *, all_is_written: bool) -> Work | None:
        """Return the next work for workers; None if nothing may begin.

        `all_is_written`: the server has ended all events whose handlers have ended. Only then are
        suspects alone.
        """
        if self._ready:
            work = self._ready.popleft()
        elif self._suspects and all_is_written and all(each.suspect for each in self.given):
            work = self._suspects.popleft()
        else:
            return None
        self.given.add(work)
        return work

    def end(self, work: Work, *, drops_key: bool = False) -> Sequence[Work]:
        """Forget work that workers had, and let the next of its key begin.

        `drops_key`: the later events of its key are forgotten too, and returned here. A release of
        `work`, or a retry that keeps its key, returns them on the server. Without such a call, the
        caller releases them.
        """
        self.given.discard(work)
        if work.key is None:
            return ()
        behind = self._behind[work.key]
        if drops_key or not behind:
            return self._behind.pop(work.key)
        following = behind.popleft()
        self._line(following).append(following)
        return ()

    def drop(self) -> list[Work]:
        """Forget and return all work that no worker has."""
        dropped = list(self._not_given())
        for line in (self._ready, self._suspects, *self._behind.values()):
            line.clear()
        self._behind = {work.key: deque() for work in self.given if work.key is not None}
        return dropped

    def _not_given(self) -> Iterator[Work]:
        for line in (self._ready, self._suspects, *self._behind.values()):
            yield from line

    def _line(self, work: Work) -> deque[Work]:
        return self._suspects if work.suspect else self._ready


SOON = 0.05  # seconds


class Pace:
    """How long handlers take, and so how many events can begin soon."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._mean: float | None = None  # seconds

    def note(self, seconds: float) -> None:
        """Note how long a handler took."""
        mean = seconds if self._mean is None else self._mean
        self._mean = mean + (seconds - mean) / 8

    def ahead(self, handlers: int) -> int:
        """Return how many events `handlers` will begin within SOON, beside those that they have."""
        if self._mean is None or self._mean > SOON:
            return 0
        return int(handlers * SOON / max(self._mean, 1e-6))
